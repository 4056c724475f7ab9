"""Before step 1 of an approval: the refusal that a person let through."""

from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.sweep.approvals import Refusal
from provisioning.sweep.approvals import find_refusal as find
from tasks.policy import database_task


@database_task("find_refusal", "find refusal {flow_run_id!s:.8}")
async def find_refusal(engine: AsyncEngine, flow_run_id: UUID, only_step: str | None) -> Refusal:
    """The recorded refusal. Raises `NotApprovable` if there is none to approve."""
    return await find(engine, flow_run_id, only_step)
