"""What the local stack asks of a Prefect server: a work pool, a sweep, and how sweeps ended."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterKey,
    FlowRunFilter,
    FlowRunFilterDeploymentId,
    FlowRunFilterEndTime,
    FlowRunFilterExpectedStartTime,
    FlowRunFilterId,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.client.schemas.sorting import FlowRunSort
from prefect.exceptions import ObjectNotFound
from prefect.states import Crashed
from prefect.workers.process import ProcessWorker

from deployments.errors import StackError

DEPLOYMENT = "reap-stuck-provisions/every-5-minutes"
WORK_POOL = "provisioning"
SWEEP_SECONDS = 120
LATEST = 50

Check = Callable[[], None]
"""Called while waiting; raises when waiting on is pointless."""


def wait_for_server(client: SyncPrefectClient, check: Check, *, seconds: float) -> None:
    """Returns when the API answers."""
    deadline = time.monotonic() + seconds
    while (problem := client.api_healthcheck()) is not None:
        check()
        if time.monotonic() > deadline:
            raise StackError(
                f"The Prefect server {client.api_url} did not answer in {seconds:.0f} s: {problem}"
            )
        time.sleep(0.25)


def ensure_work_pool(client: SyncPrefectClient) -> None:
    """Creates the pool where it is missing; one that somebody has set up stays as it is."""
    try:
        pool = client.read_work_pool(WORK_POOL)
    except ObjectNotFound:
        template = ProcessWorker.get_default_base_job_template()
        client.create_work_pool(
            WorkPoolCreate(name=WORK_POOL, type=ProcessWorker.type, base_job_template=template)
        )
        return
    if pool.type != ProcessWorker.type:
        raise StackError(
            f"The work pool {WORK_POOL!r} of this server is of type {pool.type!r}, and `make run` "
            "starts a process worker. Use a server without such a pool, or deploy as "
            "docs/production.md says."
        )


def settle_past_sweeps(client: SyncPrefectClient) -> None:
    """Tidies up before the only worker of a server starts: nothing can be running now.

    Sweeps that were missed while the stack was down are deleted, since one sweep does the work
    of them all; those that were cut short end Crashed instead of seeming to run for ever.
    """
    deployment = FlowRunFilterDeploymentId(any_=[_deployment_id(client)])
    missed = FlowRunFilter(
        deployment_id=deployment,
        state=_in_state(StateType.SCHEDULED),
        expected_start_time=FlowRunFilterExpectedStartTime(before_=datetime.now(UTC)),
    )
    for run in client.read_flow_runs(flow_run_filter=missed):
        client.delete_flow_run(run.id)
    cut_short = FlowRunFilter(
        deployment_id=deployment,
        state=_in_state(StateType.PENDING, StateType.RUNNING, StateType.CANCELLING),
    )
    for run in client.read_flow_runs(flow_run_filter=cut_short):
        stopped: State[Any] = Crashed(message="The stack was stopped while this sweep ran.")
        client.set_flow_run_state(run.id, stopped, force=True)


def set_schedule(client: SyncPrefectClient, *, active: bool) -> None:
    """Pauses or wakes the sweep's schedule on this server."""
    deployment = client.read_deployment_by_name(DEPLOYMENT)
    for schedule in deployment.schedules:
        client.update_deployment_schedule(deployment.id, schedule.id, active=active)


def run_sweep(client: SyncPrefectClient, check: Check, *, dry_run: bool = False) -> FlowRun:
    """Starts a sweep on the worker, and waits for its end."""
    run = client.create_flow_run_from_deployment(
        _deployment_id(client), parameters={"dry_run": True} if dry_run else {}
    )
    deadline = time.monotonic() + SWEEP_SECONDS
    while run.state is None or not run.state.is_final():
        check()
        if time.monotonic() > deadline:
            state = run.state.name if run.state else "unknown"
            raise StackError(
                f"The sweep did not end within {SWEEP_SECONDS} s; its state is {state}. "
                f"Is the work pool {WORK_POOL!r} paused, or busy?"
            )
        time.sleep(0.5)
        run = client.read_flow_run(run.id)
    return run


def read_report(client: SyncPrefectClient, run: FlowRun) -> str | None:
    """The Markdown that the run left in the UI; none where it did not get that far."""
    found = client.read_artifacts(
        artifact_filter=ArtifactFilter(key=ArtifactFilterKey(any_=["sweep-report"])),
        flow_run_filter=FlowRunFilter(id=FlowRunFilterId(any_=[run.id])),
    )
    return str(found[0].data) if found else None


def ended_since(client: SyncPrefectClient, since: datetime | None) -> list[FlowRun]:
    """The latest sweeps that have ended since then, oldest first, whoever started them."""
    ended = FlowRunFilter(
        deployment_id=FlowRunFilterDeploymentId(any_=[_deployment_id(client)]),
        end_time=FlowRunFilterEndTime(after_=since),
    )
    latest = client.read_flow_runs(
        flow_run_filter=ended, sort=FlowRunSort.END_TIME_DESC, limit=LATEST
    )
    return latest[::-1]


def ui_url(client: SyncPrefectClient) -> str:
    """Where the server that answers the API shows its UI."""
    return str(client.api_url).rstrip("/").removesuffix("/api")


def approval_command(refused: FlowRun) -> str:
    """The same from a shell, in lines of less than 80 columns."""
    return f"prefect deployment run {DEPLOYMENT} \\\n    --param approve_refusal={refused.id}"


def _in_state(*types: StateType) -> FlowRunFilterState:
    return FlowRunFilterState(type=FlowRunFilterStateType(any_=list(types)))


def _deployment_id(client: SyncPrefectClient) -> UUID:
    return client.read_deployment_by_name(DEPLOYMENT).id
