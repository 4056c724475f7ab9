"""Clients for the two versions of the API of Laravel Forge.

docs/upstreams.md says where each shape comes from.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import quote

import httpx
from pydantic import BaseModel, StringConstraints, model_validator

from provisioning.chain.api import Api
from provisioning.chain.domains import same_host
from provisioning.chain.upstream import Standing, Upstream, UpstreamSite
from provisioning.errors import SettingsInvalid, UpstreamRefused
from provisioning.settings import WHERE_TO_SET_IT, Settings

PAGES = 50
"""Of sites that are looked through for a domain; more is a filter that does not filter."""

FORGE_ITSELF = b"forge.laravel.com"

STANDINGS = {
    "creating": Standing.COMING,
    "installing": Standing.COMING,
    "deploying": Standing.COMING,
    "maintenance": Standing.COMING,
    "installed": Standing.READY,
    "deployed": Standing.READY,
    "never-deployed": Standing.READY,
    "failed": Standing.BROKEN,
    "error": Standing.BROKEN,
    "removing": Standing.LEAVING,
    "uninstalling": Standing.LEAVING,
}


def forge(config: Settings) -> Upstream:
    """The upstream that the environment names: with an organization, Forge as it is today.

    Raises:
        SettingsInvalid: naming each variable that is missing.
    """
    url, token, server = config.upstream_url, config.upstream_token, config.upstream_server
    if url is None or token is None or server is None:
        wanted = {"URL": url, "TOKEN": token, "SERVER": server}
        missing = [f"PROVISION_UPSTREAM_{name}" for name, value in wanted.items() if value is None]
        raise SettingsInvalid(f"{' and '.join(missing)} not set. {WHERE_TO_SET_IT}")
    api = Api(url.get_secret_value(), token)
    first_version = api.url.rstrip("/").endswith("/v1")
    if config.upstream_organization and first_version:
        raise SettingsInvalid(
            "PROVISION_UPSTREAM_URL ends in /v1, which knows no PROVISION_UPSTREAM_ORGANIZATION: "
            "leave out the one or the other."
        )
    if config.upstream_organization:
        return Forge(api, config.upstream_organization, server)
    if httpx.URL(api.url).raw_host == FORGE_ITSELF and not first_version:
        raise SettingsInvalid(
            "PROVISION_UPSTREAM_ORGANIZATION not set, without which Forge's API of today takes "
            f"nothing. {WHERE_TO_SET_IT}"
        )
    return ForgeV1(api, server)


class _Object(BaseModel):
    """What is null in an answer counts as missing: for a new site, much of it is."""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        return {name: value for name, value in data.items() if value is not None}


_Id = int | Annotated[str, StringConstraints(min_length=1)]


class _Attributes(_Object):
    name: str = ""
    status: Any = None


class _Identifier(_Object):
    type: str = ""
    id: _Id


class _Related(_Object):
    data: list[_Identifier] = []


class _Relationships(_Object):
    tags: _Related = _Related()


class _Resource(_Identifier):
    attributes: _Attributes
    relationships: _Relationships = _Relationships()


class _Included(_Identifier):
    attributes: dict[str, Any] = {}


class _Meta(_Object):
    next_cursor: int | str = ""


class _Document(_Object):
    included: list[_Included] = []

    def site(self, resource: _Resource) -> UpstreamSite:
        """The resource, with the names of its tags as its marks."""
        names = {(it.type, str(it.id)): str(it.attributes.get("name", "")) for it in self.included}
        tags = resource.relationships.tags.data
        marks = {names.get((tag.type, str(tag.id)), "") for tag in tags}
        return _site(resource.id, resource.attributes.status, frozenset(marks))


class _One(_Document):
    data: _Resource

    def only(self) -> UpstreamSite:
        return self.site(self.data)


class _Page(_Document):
    data: list[_Resource]
    meta: _Meta = _Meta()


@dataclass(frozen=True)
class Forge:
    """The sites of one server of one organization. Marks are tags."""

    api: Api
    organization: str
    server: str

    async def find(self, domain: str, marker: str) -> Sequence[UpstreamSite]:
        """As `Upstream.find`, page by page. The filter finds parts of names as well."""
        found: list[UpstreamSite] = []
        query: dict[str, Any] = {"filter[name]": domain, "include": "tags", "page[size]": 100}
        cursors = set[int | str]()
        while len(cursors) < PAGES:
            page = await self.api.call("GET", self._of_server, _Page, params=query)
            found += [page.site(it) for it in page.data if same_host(it.attributes.name, domain)]
            cursor = page.meta.next_cursor
            if not cursor:
                return found
            if cursor in cursors:
                raise UpstreamRefused("the upstream's list of sites leads back to an earlier page")
            cursors.add(cursor)
            query |= {"page[cursor]": cursor}
        raise UpstreamRefused(f"the upstream has more than {PAGES} pages of sites with this domain")

    async def create(self, domain: str, marker: str) -> UpstreamSite:
        """As `Upstream.create`."""
        body = {
            "type": "php",
            "domain_mode": "custom",
            "name": domain,
            "www_redirect_type": "none",
            "allow_wildcard_subdomains": False,
            "web_directory": "/public",
            "tags": [marker],
        }
        return (await self.api.call("POST", self._of_server, _One, json=body)).only()

    async def read(self, upstream_id: str) -> UpstreamSite:
        """As `Upstream.read`. For a moment after its create a site is not known under its id."""
        path = f"orgs/{_part(self.organization)}/sites/{_part(upstream_id)}"
        return (await self.api.call("GET", path, _One, may_be_missing=True)).only()

    @property
    def _of_server(self) -> str:
        return f"orgs/{_part(self.organization)}/servers/{_part(self.server)}/sites"


class _SiteV1(_Object):
    id: _Id
    name: str = ""
    status: Any = None


class _OneV1(_Object):
    site: _SiteV1


class _ManyV1(_Object):
    sites: list[_SiteV1]


@dataclass(frozen=True)
class ForgeV1:
    """The sites of one server, in the first version of the API, which can mark none.

    So a site whose create was not answered is not recognised: the attempt fails and says so.
    """

    api: Api
    server: str

    async def find(self, domain: str, marker: str) -> Sequence[UpstreamSite]:
        """As `Upstream.find`, in one list of all sites."""
        answer = await self.api.call("GET", self._sites, _ManyV1)
        return [_site(it.id, it.status) for it in answer.sites if same_host(it.name, domain)]

    async def create(self, domain: str, marker: str) -> UpstreamSite:
        """As `Upstream.create`."""
        body = {"domain": domain, "project_type": "php", "directory": "/public"}
        site = (await self.api.call("POST", self._sites, _OneV1, json=body)).site
        return _site(site.id, site.status)

    async def read(self, upstream_id: str) -> UpstreamSite:
        """As `Upstream.read`. For a moment after its create a site is not known under its id."""
        path = f"{self._sites}/{_part(upstream_id)}"
        site = (await self.api.call("GET", path, _OneV1, may_be_missing=True)).site
        return _site(site.id, site.status)

    @property
    def _sites(self) -> str:
        return f"servers/{_part(self.server)}/sites"


def _site(id_: int | str, status: Any, marks: frozenset[str] = frozenset()) -> UpstreamSite:
    word = "" if status is None else str(status)
    standing = STANDINGS.get(word, Standing.UNKNOWN) if word else Standing.COMING
    return UpstreamSite(str(id_), word or "none", standing, marks)


def _part(text: str) -> str:
    return quote(text, safe="")
