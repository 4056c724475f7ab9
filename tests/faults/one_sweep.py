"""Run as a process: one sweep with this environment; prints how it ended, as JSON.

Arguments shorten bounds first, so that a test need not wait for them at their full length:
`module.NAME=number`, `session.setting=value`, `flow.timeout_seconds=number`.
"""

import asyncio
import importlib
import json
import sys
from pathlib import Path
from time import monotonic
from typing import Any

from prefect.client.schemas.objects import State

from flows.reap_stuck_provisions import reap_stuck_provisions
from provisioning.session import SESSION


def main(*changes: str) -> None:
    flow = reap_stuck_provisions
    for change in changes:
        place, value = change.split("=")
        module, _, name = place.rpartition(".")
        if module == "flow":
            flow = flow.with_options(timeout_seconds=float(value))
        elif module == "session":
            SESSION[name] = value
        else:
            setattr(importlib.import_module(module), name, int(value))
    started = monotonic()
    try:
        state: State[Any] = asyncio.run(flow(return_state=True))  # type: ignore[arg-type]
        name, message = str(state.name), state.message or ""
    except Exception as error:  # noqa: BLE001  (an API that hangs takes no final state)
        name, message = type(error).__name__, str(error)
    ended = {
        "name": name,
        "message": message,
        "seconds": monotonic() - started,
        "peak_mib": peak_mib(),
    }
    print(json.dumps(ended), flush=True)


def peak_mib() -> float:
    """The most memory that this process held: `ru_maxrss` would be that of the tests' own."""
    status = Path("/proc/self/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    main(*sys.argv[1:])
