"""Step 4 of the chain: whether the site answers."""

from prefect.logging import get_run_logger
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.chain import step as enter
from provisioning.chain.domains import host_name
from provisioning.chain.health import require_healthy
from provisioning.chain.polling import Time, until
from provisioning.schema import SiteId
from provisioning.settings import revealed, settings
from tasks.policy import step


@step("check_health", "check health of site {site_id}")
async def check_health(
    engine: AsyncEngine, site_id: SiteId, attempt: str, health_url: str, within: Time
) -> None:
    """Ask the site until it answers. Raises `GaveUp` when the time is up."""
    tell = get_run_logger().info
    progress = await until(
        lambda: enter(engine, site_id, attempt, "health-check"), within=within, tell=tell
    )
    host = host_name(progress.domain)
    proxy = revealed(settings().egress_proxy)
    await until(lambda: require_healthy(health_url, host, proxy=proxy), within=within, tell=tell)
