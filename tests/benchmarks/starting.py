"""What a sweep's run through a worker costs beyond its work: Python started, Prefect imported.

Not a part of `make bench`: `python -m tests.benchmarks.starting`, ten minutes.
"""

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any
from uuid import UUID

from prefect.client.orchestration import PrefectClient, get_client

from deployments.postgres import local_postgres
from flows.reap_stuck_provisions import reap_stuck_provisions
from tests.benchmarks.data import filled
from tests.benchmarks.empty import empty_flow
from tests.benchmarks.peers.family import cpu_seconds
from tests.benchmarks.runs import without_stuck
from tests.benchmarks.server import deployed, seconds_of_a_run, worker
from tests.conftest import prefect_server

ROUNDS = 5
SETTLES = 2
"""Seconds in which the processes of a run are gone after it ended."""

DIRECTLY = {"command": "python -m prefect.engine"}
NOT_COMPILED = {"env": {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": "/nowhere"}}
WAYS: dict[str, dict[str, Any]] = {
    "as deployed": {},
    "engine started directly": DIRECTLY,
    "environment not compiled": NOT_COMPILED,
    "engine directly, environment not compiled": DIRECTLY | NOT_COMPILED,
}
"""Variables of the deployment's job."""


async def measure(url: str) -> dict[str, list[tuple[float, float]]]:
    """For each way, the CPU seconds of worker and run, and the seconds from picked up to ended."""
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        worker(folder, url) as service,
    ):
        root = [service.process.pid]
        async with get_client() as client:
            ways = {
                name: await deployed(
                    client, reap_stuck_provisions, f"way-{number}", job_variables=variables
                )
                for number, (name, variables) in enumerate(WAYS.items())
            }
            ways["an empty flow, as deployed"] = await deployed(client, empty_flow, "empty")
            found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
            for number in range(ROUNDS + 1):
                for name, deployment in ways.items():
                    one = await _one(client, deployment, root)
                    print(f"{name}, round {number}: {one}", flush=True)
                    if number:
                        found[name].append(one)
    return found


async def _one(client: PrefectClient, deployment: UUID, root: list[int]) -> tuple[float, float]:
    resting = await _rate(root)
    began, before = time.monotonic(), cpu_seconds(root)
    seconds = await seconds_of_a_run(client, deployment)
    await asyncio.sleep(SETTLES)
    used = cpu_seconds(root) - before - resting * (time.monotonic() - began)
    return used, seconds


async def _rate(root: list[int]) -> float:
    before = cpu_seconds(root)
    await asyncio.sleep(SETTLES)
    return (cpu_seconds(root) - before) / SETTLES


def main() -> int:
    """Measure an empty sweep, and print."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with (
        tempfile.TemporaryDirectory(prefix="reaper-bench-", ignore_cleanup_errors=True) as folder,
        local_postgres(Path(folder)) as postgres,
        prefect_server(postgres),
    ):
        url = without_stuck(filled(postgres, "bench_starting", 10_000))
        found = asyncio.run(measure(url))
    for name, rounds in found.items():
        cpu, seconds = (median(values) for values in zip(*rounds, strict=True))
        print(f"| {name} | {cpu:.2f} s | {seconds:.2f} s |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
