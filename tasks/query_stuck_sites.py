"""Step 1: look."""

from datetime import timedelta

from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.sweep.approvals import Refusal, listed_by
from provisioning.sweep.snapshot import Snapshot, look
from tasks.policy import database_task


@database_task("query_stuck_sites", "query stuck sites")
async def query_stuck_sites(
    engine: AsyncEngine,
    threshold: timedelta,
    limit: int,
    *,
    writes: bool,
    approves: Refusal | None,
) -> Snapshot:
    """The stuck, the unreadable and the number in flight, as of now."""
    among = listed_by(approves) if approves else None
    return await look(engine, threshold, limit, writes=writes, among=among)
