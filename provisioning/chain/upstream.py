"""The upstream that makes the sites: what a chain asks of it."""

from dataclasses import dataclass
from typing import Protocol

from provisioning.errors import NotYet, UpstreamRefused
from provisioning.text import one_line

INSTALLED = "installed"
BROKEN = ("error", "failed")
"""Statuses after which nothing more comes. Every other one is waited for, known or not."""


@dataclass(frozen=True)
class UpstreamSite:
    """A site as the upstream knows it. `status` is the upstream's own word."""

    id: str
    status: str


class Upstream(Protocol):
    """What a chain asks of whatever makes its sites.

    Each raises `NotYet` where it may be asked again, and anything else where it may not.
    """

    async def find(self, domain: str) -> UpstreamSite | None:
        """The site with this domain; None where there is none."""

    async def create(self, domain: str) -> UpstreamSite:
        """Begin to make a site. It may exist although the answer was lost."""

    async def read(self, upstream_id: str) -> UpstreamSite:
        """The site as it is now."""


async def find_or_create(upstream: Upstream, domain: str) -> UpstreamSite:
    """The upstream's site with this domain, made where there is none.

    It looks first, so asking again after a lost answer makes no second one; and again after a
    refusal, which is how a create whose answer was lost, and which comes through late, shows.
    """
    found = await upstream.find(domain)
    if found:
        return found
    try:
        return await upstream.create(domain)
    except UpstreamRefused:
        late = await upstream.find(domain)
        if late:
            return late
        raise


def require_installed(site: UpstreamSite) -> None:
    """Let an installed site pass.

    Raises:
        NotYet: with the status as it is, known or not.
        UpstreamRefused: it will not be installed any more.
    """
    says = f"the upstream says {one_line(site.status)!r} of its site {one_line(site.id)}"
    if site.status in BROKEN:
        raise UpstreamRefused(says)
    if site.status != INSTALLED:
        raise NotYet(says)
