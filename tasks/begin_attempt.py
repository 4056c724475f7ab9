"""Step 1 of the chain: a new attempt."""

from datetime import timedelta

from prefect.logging import get_run_logger
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.chain import begin, known_as
from provisioning.chain.polling import Time, until
from provisioning.schema import SiteId
from tasks.policy import step


@step("begin_attempt", "begin site {site_id}")
async def begin_attempt(
    engine: AsyncEngine, site_id: SiteId, run_id: str, limit: timedelta
) -> tuple[str, str]:
    """Stamp the start. A run that is tried again goes on with the attempt that it began.

    Returns:
        The site's id as the database writes it, and the attempt.
    """

    async def begun() -> tuple[str, str]:
        known = await known_as(engine, site_id)
        return known, await begin(engine, known, run_id=run_id, limit=limit)

    return await until(begun, within=Time(limit), tell=get_run_logger().warning)
