"""Real workers of a real Prefect server, for tests that kill them."""

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import psutil
from prefect import get_client
from prefect.client.schemas.objects import FlowRun, State

from deployments.processes import Service, service, tail

ROOT = Path(__file__).parents[2]
POOL = "story"
PATIENCE = 90.0
"""Seconds for anything that a test waits for."""


@dataclass(frozen=True)
class Workers:
    """Starts workers and runs."""

    api_url: str
    logs: Path

    @contextmanager
    def worker(self, name: str) -> Iterator[Service]:
        """A worker with the environment of this process, until the end of the `with` block."""
        with service(
            name,
            (sys.executable, "-m", "prefect", "worker", "start", "--pool", POOL, "-t", "process"),
            log=self.logs / f"{name}.log",
            environment=os.environ
            | {"PREFECT_API_URL": self.api_url, "PREFECT_WORKER_QUERY_SECONDS": "1"},
        ) as worker:
            yield worker

    async def start(self, deployment: str, **parameters: Any) -> UUID:
        """Start a run of a deployment, for the worker to take up."""
        async with get_client() as client:
            found = await client.read_deployment_by_name(deployment)
            run = await client.create_flow_run_from_deployment(found.id, parameters=parameters)
        return run.id

    async def read(self, run_id: UUID) -> FlowRun:
        """The run as the server knows it."""
        async with get_client() as client:
            return await client.read_flow_run(run_id)

    async def set_state(self, run_id: UUID, state: State[Any]) -> None:
        """What the UI's buttons do."""
        async with get_client() as client:
            await client.set_flow_run_state(run_id, state)

    async def end_of(self, run_id: UUID, worker: Service) -> State[Any]:
        """The final state of a run."""
        for _ in range(int(PATIENCE / 0.25)):
            state = (await self.read(run_id)).state
            if state and state.is_final():
                return state
            worker.check()
            await asyncio.sleep(0.25)
        raise AssertionError(f"run {run_id} did not end\n{tail(worker.log)}")


def kill_with_its_runs(worker: Service) -> int:
    """`kill -9` the worker first, so that it can't speak for its runs, and then them."""
    parent = psutil.Process(worker.process.pid)
    runs = parent.children(recursive=True)
    for process in [parent, *runs]:
        process.kill()
    psutil.wait_procs([parent, *runs], timeout=10)
    return len(runs)


def kill_run(worker: Service, run_id: UUID) -> None:
    """`kill -9` the process of one run, and leave its worker alone."""
    for process in psutil.Process(worker.process.pid).children(recursive=True):
        if process.environ().get("PREFECT__FLOW_RUN_ID") == str(run_id):
            process.kill()
            return
    raise AssertionError(f"no process of run {run_id}")
