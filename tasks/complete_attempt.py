"""Step 5 of the chain: the end stamp."""

from prefect.logging import get_run_logger
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.chain import complete
from provisioning.chain.polling import Time, until
from provisioning.schema import SiteId
from tasks.policy import step


@step("complete_attempt", "complete site {site_id}")
async def complete_attempt(
    engine: AsyncEngine, site_id: SiteId, attempt: str, within: Time
) -> None:
    """Stamp the end, if this attempt is still in flight."""
    await until(
        lambda: complete(engine, site_id, attempt),
        within=within,
        tell=get_run_logger().warning,
    )
