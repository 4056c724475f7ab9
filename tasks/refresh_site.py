"""Step 3: look again, right before acting."""

from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.site_state import Outcome
from provisioning.sweep.snapshot import Candidate, look_again
from tasks.policy import database_task


@database_task("refresh_site", "refresh {site}")
async def refresh_site(engine: AsyncEngine, site: Candidate) -> Outcome | None:
    """How the attempt has moved on since the query; None while it is still in flight."""
    return await look_again(engine, site)
