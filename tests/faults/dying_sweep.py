"""Run as a process: a sweep for each line of standard input, killed with SIGKILL where it says.

The process imports the program once and forks for each sweep, which saves the imports' seconds. A
line is a JSON object: `step` and `number` name the boundary, `side` is `before` or `after`, and
`environment` is the sweep's own. The answer is one line: the signal that ended it, or 0.

Nothing in the program knows of this. The step that the line names is wrapped, and the wrapper
kills its own process the `number`th time that it is reached.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine

import flows.reap_stuck_provisions as flow_module
import flows.sites as sites_of_a_sweep
import tasks.fail_site_terminally as marking
from flows import ending, refusing
from flows.reap_stuck_provisions import reap_stuck_provisions
from provisioning.outbox import delivery

STEPS: dict[str, tuple[Any, str]] = {
    "query": (flow_module, "query_stuck_sites"),
    "cap check": (flow_module, "check_cap"),
    "refresh": (sites_of_a_sweep, "refresh_site"),
    "mark": (sites_of_a_sweep, "fail_site_terminally"),
    "mark's statement": (marking, "fail_terminally"),
    "claim": (delivery, "claim"),
    "send": (delivery, "post"),
    "recorded delivery": (delivery, "record"),
    "refusal's record": (refusing, "record_refusal"),
    "report": (ending, "publish_report"),
}

_inside: ContextVar[bool] = ContextVar("inside", default=False)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def countdown(number: int) -> Callable[[], None]:
    """Dies the `number`th time that it is called."""
    left = number

    def reached() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            die()

    return reached


def arm(step: str, side: str, number: int) -> None:
    module, name = STEPS[step]
    really, reached = getattr(module, name), countdown(number)

    async def wrapped(*arguments: Any, **options: Any) -> Any:
        if side == "before" and not step.endswith("statement"):
            reached()
        token = _inside.set(True)
        try:
            result = await really(*arguments, **options)
        finally:
            _inside.reset(token)
        if side == "after":
            reached()
        return result

    setattr(module, name, wrapped)
    if side == "before" and step.endswith("statement"):
        # SQLAlchemy tells of a statement right before it sends it. The mark commits by itself.
        event.listen(
            Engine, "before_cursor_execute", lambda *_: reached() if _inside.get() else None
        )


def sweep(order: dict[str, Any]) -> None:
    os.environ.update(order["environment"])
    os.dup2(2, 1)  # the answers' channel is the parent's alone
    arm(order["step"], order["side"], order["number"])
    asyncio.run(reap_stuck_provisions(return_state=True))  # type: ignore[arg-type]


def main() -> None:
    print("ready", flush=True)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            sweep(json.loads(line))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0, flush=True)


if __name__ == "__main__":
    main()
