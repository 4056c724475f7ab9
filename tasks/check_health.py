"""Step 4 of the chain: whether the site answers."""

from datetime import timedelta

from prefect.logging import get_run_logger
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.chain import age, step
from provisioning.chain.health import require_healthy
from provisioning.chain.polling import until
from provisioning.schema import SiteId
from provisioning.settings import revealed, settings
from tasks.policy import database_task


@database_task("check_health", "check health of site {site_id}")
async def check_health(
    engine: AsyncEngine, site_id: SiteId, attempt: str, health_url: str, limit: timedelta
) -> None:
    """Ask the site until it answers. Raises `GaveUp` at the limit."""
    progress = await step(engine, site_id, attempt, "health-check")
    proxy = revealed(settings().egress_proxy)
    await until(
        lambda: require_healthy(health_url, progress.domain, proxy=proxy),
        age=lambda: age(engine, site_id, attempt),
        limit=limit,
        tell=get_run_logger().info,
    )
