"""A client for a Forge-shaped HTTP API.

Each question is asked once, within a bound. What passes by itself (a busy or restarting upstream, a
lost answer) is `NotYet`; everything else is final. The token reaches no text that leaves here.
"""

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel, SecretStr, ValidationError

from provisioning.chain.upstream import UpstreamSite
from provisioning.errors import NotYet, SettingsInvalid, UpstreamRefused
from provisioning.http.retry_after import retry_after
from provisioning.settings import WHERE_TO_SET_IT, Settings
from provisioning.text import one_line

CALL_SECONDS = 20.0
"""For one call, from the connection to the last byte of the answer."""

PASSING = (429, 502, 503, 504)
"""Answers that say nothing about the request; the same one may succeed later."""


class _Site(BaseModel):
    id: int | str
    name: str
    status: str | None = None

    def known(self) -> UpstreamSite:
        return UpstreamSite(str(self.id), self.status or "none")


class _One(BaseModel):
    site: _Site


class _Many(BaseModel):
    sites: list[_Site]


Answer = TypeVar("Answer", bound=BaseModel)


@dataclass(frozen=True)
class ForgeUpstream:
    """The sites of one server, over HTTP with a bearer token. Follows no redirect."""

    url: str = field(repr=False)
    token: SecretStr
    server: str

    async def find(self, domain: str) -> UpstreamSite | None:
        """As `Upstream.find`. An upstream that does not know the filter sends all sites."""
        answer = await self._call("GET", self._path(), _Many, params={"filter[name]": domain})
        same = [site for site in answer.sites if site.name.casefold() == domain.casefold()]
        return same[0].known() if same else None

    async def create(self, domain: str) -> UpstreamSite:
        """As `Upstream.create`."""
        body = {"domain": domain, "project_type": "php"}
        return (await self._call("POST", self._path(), _One, json=body)).site.known()

    async def read(self, upstream_id: str) -> UpstreamSite:
        """As `Upstream.read`."""
        return (await self._call("GET", self._path(upstream_id), _One)).site.known()

    def _path(self, *parts: str) -> str:
        return "/".join(["servers", quote(self.server, safe=""), "sites", *parts])

    async def _call(self, method: str, path: str, shape: type[Answer], **content: Any) -> Answer:
        what = f"{method} /{path}"
        headers = {
            "authorization": f"Bearer {self.token.get_secret_value()}",
            "accept": "application/json",
        }
        try:
            async with (
                asyncio.timeout(CALL_SECONDS),
                httpx.AsyncClient(base_url=self.url, headers=headers, timeout=CALL_SECONDS) as http,
            ):
                response = await http.request(method, path, **content)
        except (TimeoutError, httpx.TransportError) as error:
            raise NotYet(
                f"the upstream gave no answer to {what} ({type(error).__name__})"
            ) from None
        if response.status_code in PASSING:
            wait = retry_after(response.headers.get("retry-after"), datetime.now(UTC))
            raise NotYet(f"the upstream answered {response.status_code} to {what}", wait)
        if not response.is_success:
            raise UpstreamRefused(
                f"the upstream answered {response.status_code} to {what}: {self._told(response)}"
            )
        try:
            return shape.model_validate_json(response.content)
        except ValidationError:
            raise UpstreamRefused(
                f"the upstream's answer to {what} has another shape: {self._told(response)}"
            ) from None

    def _told(self, response: httpx.Response) -> str:
        """The beginning of an answer, without the token, which some servers send back."""
        text = response.text.replace(self.token.get_secret_value(), "[token]")
        return one_line(text, 200) or "(empty)"


def forge(config: Settings) -> ForgeUpstream:
    """The upstream that the environment names.

    Raises:
        SettingsInvalid: naming each variable that is missing.
    """
    url, token, server = config.upstream_url, config.upstream_token, config.upstream_server
    if url is None or token is None or server is None:
        wanted = {"URL": url, "TOKEN": token, "SERVER": server}
        missing = [f"PROVISION_UPSTREAM_{name}" for name, value in wanted.items() if value is None]
        raise SettingsInvalid(f"{' and '.join(missing)} not set. {WHERE_TO_SET_IT}")
    return ForgeUpstream(url.get_secret_value(), token, server)
