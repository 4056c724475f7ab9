"""The request: this row's site at the upstream, found again or made, and never another row's."""

from collections.abc import Callable

from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.chain.attempts import Progress, claim_upstream, remember_upstream, step
from provisioning.chain.domains import host_name
from provisioning.chain.polling import Time, until
from provisioning.chain.upstream import Claim, Upstream, find_or_create, own
from provisioning.schema import SiteId


async def request(
    engine: AsyncEngine,
    upstream: Upstream,
    site_id: SiteId,
    attempt: str,
    *,
    within: Time,
    tell: Callable[[str], None],
) -> str:
    """The upstream's id of the row's site.

    It is the one that this attempt remembers; or the one that an earlier attempt of the row had
    made for the same domain, where the upstream still has it; or a new one's.

    Raises:
        BadDomain: the site's domain is no host name.
        UpstreamRefused: as the upstream, or because the domain is taken by another's site.
        GaveUp: the time is up.
        NotInFlight: the attempt is over.
    """
    progress = await until(
        lambda: step(engine, site_id, attempt, "request"), within=within, tell=tell
    )
    domain = host_name(progress.domain)
    claim = progress.claim
    if claim and claim.attempt == attempt and claim.upstream_id:
        tell(f"Goes on with the upstream's site {claim.upstream_id}")
        return claim.upstream_id

    async def of_an_earlier_attempt(claim: Claim) -> str | None:
        site = own(await upstream.find(domain, claim.marker), claim)
        return site.id if site else None

    async def remember(upstream_id: str) -> Progress:
        return await remember_upstream(engine, site_id, attempt, upstream_id)

    if claim and claim.attempt != attempt and claim.domain == domain:
        earlier = claim
        known = await until(lambda: of_an_earlier_attempt(earlier), within=within, tell=tell)
        if known:
            tell(f"Takes over site {known}, which the attempt of {earlier.attempt} had made")
            await until(lambda: remember(known), within=within, tell=tell)
            return known

    fresh = Claim(progress.site_id, attempt, domain)
    await until(lambda: claim_upstream(engine, fresh, site_id), within=within, tell=tell)
    site = await until(lambda: find_or_create(upstream, domain, fresh), within=within, tell=tell)
    await until(lambda: remember(site.id), within=within, tell=tell)
    return site.id
