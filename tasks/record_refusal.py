"""After a refusal: keep what it saw, so that a person can let exactly that through."""

from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.errors import CapExceeded
from provisioning.sweep.refusals import record_refusal as record
from provisioning.sweep.snapshot import Snapshot
from tasks.policy import database_task


@database_task("record_refusal", "record refusal")
async def record_refusal(
    engine: AsyncEngine,
    flow_run_id: UUID,
    refusal: CapExceeded,
    snapshot: Snapshot,
    *,
    stands: bool,
) -> None:
    """Write the (site, attempt) pairs that this run saw and did not touch."""
    await record(engine, flow_run_id, refusal, snapshot, stands=stands)
