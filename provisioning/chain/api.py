"""One question to the HTTP API of an upstream, within a bound.

What passes by itself (a busy or restarting upstream, a lost answer) is `NotYet`; everything else is
final. The token reaches no text that leaves here.
"""

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel, SecretStr, ValidationError
from pydantic_core import from_json

from provisioning.errors import NotThere, NotYet, UpstreamRefused
from provisioning.http.retry_after import retry_after
from provisioning.text import one_line

CALL_SECONDS = 20.0
"""For one call, from the connection to the last byte of the answer."""

LONGEST_ANSWER = 16 << 20
"""Bytes of an answer that are read; a list of all sites of a server has a few million at most."""

LONGEST_RESET = timedelta(minutes=5)
"""How far ahead the reset of a rate limit is believed: its clock is the upstream's own."""

_ASKS_FOR_TIME = (408, 425, 429)
_NEVER_BETTER = (501, 505)

Shape = TypeVar("Shape", bound=BaseModel)


@dataclass(frozen=True)
class Api:
    """An HTTP API with a bearer token. Follows no redirect."""

    url: str = field(repr=False)
    token: SecretStr

    async def call(
        self,
        method: str,
        path: str,
        shape: type[Shape],
        *,
        may_be_missing: bool = False,
        **content: Any,
    ) -> Shape:
        """Ask once.

        Args:
            path: below the API's URL, with its parts escaped.
            shape: what the answer must hold; what else is in it is passed over.
            may_be_missing: whether 404 may pass by itself, as for a thing that is being made.
            content: the query (`params`) and the body (`json`), as httpx takes them.

        Raises:
            NotYet: the same question may be answered later. So may one that was answered with a
                page of something in between, which is no JSON; and one that was accepted with an
                answer of another shape: what it made shows when it is looked for.
            NotThere: a `NotYet` for 404, where that may pass.
            UpstreamRefused: asking again would not change the answer.
        """
        what = f"{method} /{path}"
        headers = {
            "authorization": f"Bearer {self.token.get_secret_value()}",
            "accept": "application/json",
        }
        try:
            async with (
                asyncio.timeout(CALL_SECONDS),
                httpx.AsyncClient(base_url=self.url, headers=headers, timeout=CALL_SECONDS) as http,
                http.stream(method, path, **content) as response,
            ):
                body = await _beginning(response)
        except (TimeoutError, httpx.RequestError) as error:
            raise NotYet(
                f"the upstream gave no answer to {what} ({type(error).__name__})"
            ) from None
        told = self._told(body)
        answered = f"the upstream answered {response.status_code} to {what}"
        if may_be_missing and response.status_code == httpx.codes.NOT_FOUND:
            raise NotThere(f"{answered}: {told}")
        if _passes(response.status_code):
            raise NotYet(f"{answered}: {told}", wish(response, datetime.now(UTC)))
        if not response.is_success:
            raise UpstreamRefused(f"{answered}: {told}")
        verdict = NotYet if method == "POST" else UpstreamRefused
        if len(body) > LONGEST_ANSWER:
            raise verdict(f"the upstream's answer to {what} is too long to be read: {told}")
        try:
            return shape.model_validate(from_json(body))
        except ValidationError:
            raise verdict(f"the upstream's answer to {what} has another shape: {told}") from None
        except ValueError:
            raise NotYet(f"the upstream's answer to {what} is no JSON: {told}") from None

    def _told(self, body: bytes) -> str:
        """The beginning of an answer, without the token, which some servers send back."""
        text = body[:100_000].decode(errors="replace")
        text = text.replace(self.token.get_secret_value(), "[token]")
        return one_line(text, 200) or "(empty)"


async def _beginning(response: httpx.Response) -> bytes:
    """The answer, or the beginning of one that is longer than it may be."""
    body = bytearray()
    async for part in response.aiter_bytes():
        body += part
        if len(body) > LONGEST_ANSWER:
            break
    return bytes(body)


def _passes(status: int) -> bool:
    """Whether an answer says nothing about the request. 52x are Cloudflare's, before an origin."""
    return status in _ASKS_FOR_TIME or (status >= 500 and status not in _NEVER_BETTER)


def wish(response: httpx.Response, now: datetime) -> timedelta:
    """How long the upstream wants to be left alone; zero where it does not say.

    By Retry-After, or else by the reset of its rate limit, which Laravel's APIs give in Unix time.
    """
    asked = retry_after(response.headers.get("retry-after"), now)
    reset = response.headers.get("x-ratelimit-reset", "")
    if asked or response.status_code != httpx.codes.TOO_MANY_REQUESTS or not reset.isdecimal():
        return asked
    left = timedelta(seconds=min(float(reset) - now.timestamp(), LONGEST_RESET.total_seconds()))
    return max(left, timedelta(0))
