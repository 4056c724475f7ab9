"""Step 3 of the chain: the wait, which is bounded."""

from prefect.logging import get_run_logger
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.chain import step as enter
from provisioning.chain.polling import Time, until
from provisioning.chain.upstream import Upstream, Watch
from provisioning.schema import SiteId
from tasks.policy import step


@step("wait_until_installed", "wait for site {site_id}")
async def wait_until_installed(
    engine: AsyncEngine,
    upstream: Upstream,
    site_id: SiteId,
    attempt: str,
    upstream_id: str,
    within: Time,
) -> None:
    """Ask the upstream until the site is ready. Raises `GaveUp` when the time is up."""
    tell = get_run_logger().info
    await until(lambda: enter(engine, site_id, attempt, "install"), within=within, tell=tell)
    await until(Watch(upstream, upstream_id).require_ready, within=within, tell=tell)
