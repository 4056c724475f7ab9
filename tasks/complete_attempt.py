"""Step 5 of the chain: the end stamp."""

from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.chain import complete
from provisioning.schema import SiteId
from tasks.policy import database_task


@database_task("complete_attempt", "complete site {site_id}")
async def complete_attempt(engine: AsyncEngine, site_id: SiteId, attempt: str) -> None:
    """Stamp the end, if this attempt is still in flight."""
    await complete(engine, site_id, attempt)
