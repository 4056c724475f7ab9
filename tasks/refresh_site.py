"""Step 3: look again, right before acting."""

from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.outcomes import Outcome
from provisioning.sightings import Candidate, look_again
from tasks.step import database_step


@database_step("refresh_site", "refresh {site}")
async def refresh_site(engine: AsyncEngine, site: Candidate) -> Outcome | None:
    """How the attempt has moved on since the query; None while it is still in flight."""
    return await look_again(engine, site)
