"""The upstream that makes the sites: what a chain asks of it, and whose a site is.

A site belongs to the row that had it made. Its domain proves nothing: two rows can have the same
one. What proves it is the id that the row remembers, or the marker that its own create left.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from provisioning.errors import NotThere, NotYet, UpstreamRefused
from provisioning.text import one_line


class Standing(StrEnum):
    """What a status of the upstream means for a chain."""

    COMING = "coming"
    """It is being made."""
    READY = "ready"
    BROKEN = "broken"
    """Nothing more comes of it."""
    LEAVING = "leaving"
    """It is being removed."""
    UNKNOWN = "unknown"
    """A status that nobody told this program of. It is waited for, and named."""


@dataclass(frozen=True)
class UpstreamSite:
    """A site as the upstream knows it."""

    id: str
    status: str
    """The upstream's own word."""
    standing: Standing
    marks: frozenset[str] = frozenset()
    """What the site carries of what its create gave it: tags, or a name of its own."""

    def __str__(self) -> str:
        return f"site {one_line(self.id)}"


class Upstream(Protocol):
    """What a chain asks of whatever makes its sites.

    Each raises `NotYet` where it may be asked again, and anything else where it may not.
    """

    async def find(self, domain: str, marker: str) -> Sequence[UpstreamSite]:
        """The sites with this domain or this marker, as far as the upstream can tell."""

    async def create(self, domain: str, marker: str) -> UpstreamSite:
        """Begin to make a site, and mark it, where that can be. It may exist without an answer."""

    async def read(self, upstream_id: str) -> UpstreamSite:
        """The site as it is now. `NotThere` where it is not known under this id."""


@dataclass(frozen=True)
class Claim:
    """What a row knows of the site that an attempt of it had made, or was about to have made."""

    site_id: str
    attempt: str
    domain: str
    upstream_id: str | None = None
    """None while no answer to the create has come in."""

    @property
    def marker(self) -> str:
        """Names this row's attempt for this domain and no other one, in letters that tags allow."""
        names = json.dumps([self.site_id, self.attempt, self.domain])
        return f"provision-{hashlib.sha256(names.encode()).hexdigest()[:24]}"

    def covers(self, site: UpstreamSite) -> bool:
        """Whether the site is the one that was made then."""
        return site.id == self.upstream_id or self.marker in site.marks


def own(found: Sequence[UpstreamSite], claim: Claim) -> UpstreamSite | None:
    """The site of the claim among those that were found; None where none was found at all.

    Raises:
        NotYet: it is being removed, or the one that has its domain is.
        UpstreamRefused: the domain is taken by a site that the claim does not cover.
    """
    mine = [site for site in found if claim.covers(site)]
    for site in mine or found:
        if site.standing is Standing.LEAVING:
            raise NotYet(f"the upstream is still removing {site}, which has this domain")
    if mine:
        return mine[0]
    if found:
        raise UpstreamRefused(
            f"the upstream already has {found[0]} with this domain, and nothing shows that it was "
            "made for this row: it is left as it is"
        )
    return None


async def find_or_create(upstream: Upstream, domain: str, claim: Claim) -> UpstreamSite:
    """The site of the claim, made where the upstream has none with its domain.

    It looks first, so asking again after a lost answer makes no second one; and again after a
    refusal, which is how a create whose answer was lost, and which comes through late, shows.

    Raises:
        NotYet, UpstreamRefused: as `own`, and as the upstream.
    """
    found = own(await upstream.find(domain, claim.marker), claim)
    if found:
        return found
    try:
        return await upstream.create(domain, claim.marker)
    except UpstreamRefused:
        late = own(await upstream.find(domain, claim.marker), claim)
        if late:
            return late
        raise


@dataclass
class Watch:
    """One site, looked at again and again until it is ready."""

    upstream: Upstream
    upstream_id: str
    seen: bool = False

    async def require_ready(self) -> None:
        """As `require_ready`, for the site as it is now.

        Raises:
            NotYet, UpstreamRefused: as `require_ready`, and as the upstream; but a site that was
                seen and is not there any more does not come back.
        """
        try:
            site = await self.upstream.read(self.upstream_id)
        except NotThere as error:
            if not self.seen:
                raise
            raise UpstreamRefused(f"{error}, so somebody has removed it") from None
        self.seen = True
        require_ready(site)


def require_ready(site: UpstreamSite) -> None:
    """Let a site pass that is ready.

    Raises:
        NotYet: it is not ready yet, or its status is one that this program does not know.
        UpstreamRefused: it will not be ready any more.
    """
    says = f"the upstream says {one_line(site.status)!r} of its {site}"
    match site.standing:
        case Standing.READY:
            return
        case Standing.BROKEN:
            raise UpstreamRefused(says)
        case Standing.LEAVING:
            raise UpstreamRefused(f"{says}, so somebody is removing it")
        case Standing.UNKNOWN:
            raise NotYet(f"{says}, a status that this program does not know")
        case Standing.COMING:
            raise NotYet(says)
