"""After a refusal: keep what it saw, so that a person can let exactly that through."""

from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.caps import CapExceeded
from provisioning.refusals import record_refusal as record
from provisioning.sightings import Sighting
from tasks.step import database_step


@database_step("record_refusal", "record refusal")
async def record_refusal(
    engine: AsyncEngine, flow_run_id: UUID, refusal: CapExceeded, sighting: Sighting
) -> None:
    """Write the (site, attempt) pairs that this run saw and did not touch."""
    await record(engine, flow_run_id, refusal, sighting)
