"""Step 2 of the chain: ask the upstream for the site."""

from prefect.logging import get_run_logger
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.chain.polling import Time
from provisioning.chain.request import request
from provisioning.chain.upstream import Upstream
from provisioning.schema import SiteId
from tasks.policy import step


@step("request_site", "request site {site_id}")
async def request_site(
    engine: AsyncEngine, upstream: Upstream, site_id: SiteId, attempt: str, within: Time
) -> str:
    """The upstream's id of the site, which is this row's own."""
    log = get_run_logger()
    upstream_id = await request(engine, upstream, site_id, attempt, within=within, tell=log.warning)
    log.info("The upstream's site is %s", upstream_id)
    return upstream_id
