"""What the runs before this one came to, from Prefect's own history. Best effort."""

import asyncio
from collections.abc import Iterable

from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    FlowFilter,
    FlowFilterId,
    FlowRunFilter,
    FlowRunFilterDeploymentId,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.client.schemas.sorting import FlowRunSort
from prefect.logging import get_run_logger
from prefect.runtime import flow_run

from provisioning.sweep.result import Ending, Streak

HISTORY = 200
"""The most past runs that are read: at one every five minutes, the last sixteen hours."""

HISTORY_SECONDS = 10


async def refusals_in_a_row() -> Streak | None:
    """This refusal and those right before it; None where the history can't be read."""
    try:
        async with asyncio.timeout(HISTORY_SECONDS), get_client() as client:
            this_run = await client.read_flow_run(flow_run.id)
            past = await client.read_flow_runs(
                flow_filter=FlowFilter(id=FlowFilterId(any_=[this_run.flow_id])),
                flow_run_filter=_ended(this_run),
                sort=FlowRunSort.END_TIME_DESC,
                limit=HISTORY,
            )
    except Exception as error:  # noqa: BLE001  (a refusal waits for no history)
        get_run_logger().warning("The history was not read: %s", type(error).__name__)
        return None
    return streak(this_run, past)


def _ended(this_run: FlowRun) -> FlowRunFilter:
    """The runs that ended, of the same deployment where this run has one: others sweep others."""
    own = this_run.deployment_id
    return FlowRunFilter(
        state=FlowRunFilterState(
            type=FlowRunFilterStateType(any_=[StateType.COMPLETED, StateType.FAILED])
        ),
        deployment_id=FlowRunFilterDeploymentId(any_=[own]) if own else None,
    )


def streak(this_run: FlowRun, past: Iterable[FlowRun]) -> Streak:
    """Count back from this refusal to the last sweep that was free to act.

    Dry runs, approvals and runs that could not look decide nothing, and are passed over.

    Args:
        past: ended runs, the newest first.
    """
    row = [this_run]
    for run in past:
        by_hand = run.parameters.get("dry_run") or run.parameters.get("approve_refusal")
        looked = run.state is not None and run.state.name in list(Ending)
        if run.id == this_run.id or by_hand or not looked:
            continue
        if run.state_name != Ending.REFUSED:
            break
        row.append(run)
    return Streak(len(row), since=row[-1].start_time)
