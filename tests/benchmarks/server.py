"""A Prefect server and a worker for the benchmarks."""

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any
from uuid import UUID

from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.objects import FlowRun
from prefect.flows import Flow
from prefect.settings import PREFECT_API_URL

from deployments.processes import Service, run_command, service
from flows.reap_stuck_provisions import reap_stuck_provisions
from tests.benchmarks.empty import empty_flow
from tests.commands import ROOT

POOL = "benchmarks"
WAIT_SECONDS = 120


async def through_the_worker(url: str, rounds: int) -> tuple[float, float]:
    """The median seconds of an empty sweep and of an empty flow, from picked up to ended."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, worker(folder, url):
        async with get_client() as client:
            ours = await deployed(client, reap_stuck_provisions, "benchmark")
            empty = await deployed(client, empty_flow, "benchmark")
            times: dict[UUID, list[float]] = {ours: [], empty: []}
            for _ in range(rounds):
                for deployment, taken in times.items():
                    taken.append(await seconds_of_a_run(client, deployment))
            return median(times[ours]), median(times[empty])


@contextmanager
def worker(folder: str, url: str) -> Iterator[Service]:
    """A process worker whose runs sweep this database."""
    environment = os.environ | {
        "PREFECT_API_URL": str(PREFECT_API_URL.value()),
        "PROVISION_DATABASE_URL": url,
        "PYTHONPATH": str(ROOT),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    prefect = (sys.executable, "-m", "prefect")
    run_command(
        (*prefect, "--no-prompt", "work-pool", "create", POOL, "--type", "process", "--overwrite"),
        folder=ROOT,
        log=Path(folder) / "pool.log",
        environment=environment,
        timeout=WAIT_SECONDS,
    )
    with service(
        "worker",
        (*prefect, "worker", "start", "--pool", POOL),
        log=Path(folder) / "worker.log",
        environment=environment,
    ) as started:
        yield started


async def deployed(
    client: PrefectClient,
    flow: Flow[Any, Any],
    name: str,
    *,
    job_variables: dict[str, Any] | None = None,
) -> UUID:
    """The id of a deployment of that flow on the benchmarks' pool."""
    return await client.create_deployment(
        flow_id=await client.create_flow(flow),
        name=name,
        entrypoint=f"{flow.fn.__module__}.{flow.fn.__name__}",
        work_pool_name=POOL,
        pull_steps=[],
        job_variables=job_variables,
        parameter_openapi_schema=flow.parameters.model_dump(),
    )


async def seconds_of_a_run(client: PrefectClient, deployment: UUID) -> float:
    """From picked up by the worker to ended, of one run of that deployment."""
    run: FlowRun = await client.create_flow_run_from_deployment(deployment)
    deadline = time.monotonic() + WAIT_SECONDS
    while not (run.state and run.state.is_final()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"run {run.name} is {run.state_name} after {WAIT_SECONDS} s")
        await asyncio.sleep(0.1)
        run = await client.read_flow_run(run.id)
    states = await client.read_flow_run_states(run.id)
    picked_up = next(state for state in states if state.name == "Pending")
    ended = states[-1]
    assert ended.is_completed(), ended
    assert ended.timestamp
    assert picked_up.timestamp
    return (ended.timestamp - picked_up.timestamp).total_seconds()
