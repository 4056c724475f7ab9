"""Step 3 of the chain: the wait, which is bounded."""

from datetime import timedelta

from prefect.logging import get_run_logger
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.chain import age, step
from provisioning.chain.polling import until
from provisioning.chain.upstream import Upstream, require_installed
from provisioning.schema import SiteId
from tasks.policy import database_task


@database_task("wait_until_installed", "wait for site {site_id}")
async def wait_until_installed(
    engine: AsyncEngine,
    upstream: Upstream,
    site_id: SiteId,
    attempt: str,
    upstream_id: str,
    limit: timedelta,
) -> None:
    """Ask the upstream until the site is installed. Raises `GaveUp` at the limit."""
    await step(engine, site_id, attempt, "install")

    async def installed() -> None:
        require_installed(await upstream.read(upstream_id))

    await until(
        installed,
        age=lambda: age(engine, site_id, attempt),
        limit=limit,
        tell=get_run_logger().info,
    )
