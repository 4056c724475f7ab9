"""Step 2 of the chain: ask the upstream for the site."""

from datetime import timedelta

from prefect.logging import get_run_logger
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.chain import age, remember_upstream, step
from provisioning.chain.polling import until
from provisioning.chain.upstream import Upstream, find_or_create
from provisioning.errors import UpstreamRefused
from provisioning.schema import SiteId
from tasks.policy import database_task


@database_task("request_site", "request site {site_id}")
async def request_site(
    engine: AsyncEngine, upstream: Upstream, site_id: SiteId, attempt: str, limit: timedelta
) -> str:
    """The upstream's id of the site: the one that the attempt remembers, or a new one's."""
    log = get_run_logger()
    progress = await step(engine, site_id, attempt, "request")
    if progress.upstream_id:
        log.info("Goes on with the upstream's site %s", progress.upstream_id)
        return progress.upstream_id
    if not progress.domain:
        raise UpstreamRefused("the site has no domain to ask for")
    site = await until(
        lambda: find_or_create(upstream, progress.domain),
        age=lambda: age(engine, site_id, attempt),
        limit=limit,
        tell=log.warning,
    )
    await remember_upstream(engine, site_id, attempt, site.id)
    log.info("The upstream's site is %s, its status %r", site.id, site.status)
    return site.id
