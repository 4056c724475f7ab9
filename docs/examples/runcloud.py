"""Another upstream: the API of RunCloud, version 3. An example, which the tests run.

It differs from Forge in what matters here: a web application has a name of its own beside its
domain, which is where the marker goes; it has no status, so it is ready once it is there; and a
list of applications does not tell their domains, so a domain that is taken shows when the create is
refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from provisioning.chain.api import Api
from provisioning.chain.upstream import Standing, UpstreamSite


class _App(BaseModel):
    id: int
    name: str

    def site(self) -> UpstreamSite:
        return UpstreamSite(str(self.id), "created", Standing.READY, frozenset([self.name]))


class _Apps(BaseModel):
    data: list[_App]


@dataclass(frozen=True)
class RunCloud:
    """The web applications of one server. `settings` is what its create wants beside the names."""

    api: Api
    server: str
    settings: Mapping[str, Any]

    async def find(self, domain: str, marker: str) -> Sequence[UpstreamSite]:
        """As `Upstream.find`. Names are unique on a server, and a search finds parts of them."""
        found = await self.api.call("GET", self._apps, _Apps, params={"search": marker})
        return [app.site() for app in found.data if app.name == marker]

    async def create(self, domain: str, marker: str) -> UpstreamSite:
        """As `Upstream.create`."""
        body = {**self.settings, "name": marker, "domainName": domain}
        return (await self.api.call("POST", f"{self._apps}/custom", _App, json=body)).site()

    async def read(self, upstream_id: str) -> UpstreamSite:
        """As `Upstream.read`."""
        path = f"{self._apps}/{upstream_id}"
        return (await self.api.call("GET", path, _App, may_be_missing=True)).site()

    @property
    def _apps(self) -> str:
        return f"servers/{self.server}/webapps"
