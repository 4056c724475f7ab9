"""Step 1 of the chain: a new attempt."""

from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.chain import begin
from provisioning.schema import SiteId
from tasks.policy import database_task


@database_task("begin_attempt", "begin site {site_id}")
async def begin_attempt(engine: AsyncEngine, site_id: SiteId, run_id: str) -> str:
    """Stamp the start. A run that is tried again goes on with the attempt that it began."""
    return await begin(engine, site_id, run_id=run_id)
