"""Before step 2: what earlier refusals mean for this run."""

from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.sweep.refusals import Past, read_past
from tasks.policy import database_task


@database_task("read_refusals", "read earlier refusals")
async def read_refusals(engine: AsyncEngine, flow_run_id: UUID) -> Past:
    """The refusals since a sweep last acted, and whether one of them stands."""
    return await read_past(engine, flow_run_id)
