"""Before step 5: what is owed, by this run, by earlier ones and by the chain."""

from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.outbox import store
from provisioning.outbox.store import TAKEN_UP, Backlog
from provisioning.settings import settings
from tasks.policy import database_task


@database_task("list_owed", "list owed notices")
async def list_owed(engine: AsyncEngine) -> Backlog:
    """What is owed as of now, the longest due first."""
    teardowns = settings().teardown_url is not None
    return await store.list_owed(engine, TAKEN_UP, teardowns=teardowns)
