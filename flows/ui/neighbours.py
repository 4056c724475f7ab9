"""The sweeps round one that failed: when one could look last, and when the next is due.

Best effort: the report of the failure says what is known.
"""

import asyncio
from uuid import UUID

from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterDeploymentId,
    FlowRunFilterState,
    FlowRunFilterStateName,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.client.schemas.sorting import FlowRunSort

from provisioning.sweep.report import Neighbours
from provisioning.sweep.result import Ending

ASK_SECONDS = 5

LOOKED = [ending.value for ending in Ending if ending not in (Ending.FAILED, Ending.REHEARSED)]
"""The states of sweeps that could look."""


async def neighbours(deployment_id: UUID | None) -> Neighbours:
    """Those of one deployment."""
    if deployment_id is None:
        return Neighbours()
    looked = FlowRunFilterState(name=FlowRunFilterStateName(any_=LOOKED))
    waits = FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.SCHEDULED]))
    try:
        async with asyncio.timeout(ASK_SECONDS), get_client() as client:
            before = await _one(client, deployment_id, looked, FlowRunSort.END_TIME_DESC)
            after = await _one(client, deployment_id, waits, FlowRunSort.EXPECTED_START_TIME_ASC)
    except Exception:  # noqa: BLE001  (the run ends with or without this knowledge)
        return Neighbours()
    return Neighbours(
        looked_at=before.end_time if before else None,
        ended=before.state_name or "" if before else "",
        next_at=after.expected_start_time if after else None,
    )


async def _one(
    client: PrefectClient, deployment_id: UUID, state: FlowRunFilterState, first: FlowRunSort
) -> FlowRun | None:
    of = FlowRunFilterDeploymentId(any_=[deployment_id])
    runs = await client.read_flow_runs(
        flow_run_filter=FlowRunFilter(deployment_id=of, state=state), sort=first, limit=1
    )
    return runs[0] if runs else None
