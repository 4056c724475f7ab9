"""One delivery of one notice over HTTP: signed, guarded, and over within the deadline.

Nothing that leaves this module holds more of a URL than its scheme and host: what the HTTP client
raises may carry all of it, so it ends here, as a reason in our own words.
"""

import asyncio
import base64
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from math import floor
from uuid import UUID

import httpx
from httpx_secure import httpx_ssrf_protection
from pydantic import SecretStr
from standardwebhooks import Webhook

from provisioning.errors import Unresolved
from provisioning.http.addresses import IPAddress, is_public, resolve
from provisioning.http.urls import origin, parsed

DEADLINE = 10.0
"""Seconds for one delivery, from looking up the name to the head of the answer."""

CONNECT_TIMEOUT = 3.0
"""Seconds for one address of a host that has several."""

ADDRESSES_TRIED = 3
"""The most addresses of one host that a delivery dials."""


@dataclass(frozen=True)
class Answer:
    """The receiver answered. `retry_after` is its header, verbatim."""

    status: int
    retry_after: str | None


@dataclass(frozen=True)
class NoAnswer:
    """Nothing was heard; a later delivery may fare better."""

    reason: str


@dataclass(frozen=True)
class Unsendable:
    """The URL can't be sent to, now or later. Nothing was dialled."""

    reason: str


Reply = Answer | NoAnswer | Unsendable


def signed(
    notice_id: UUID, sent_at: datetime, body: bytes, secret: SecretStr | None
) -> dict[str, str]:
    """The headers of the Standard Webhooks specification; unsigned where there is no secret."""
    moment = sent_at.astimezone(UTC)
    headers = {
        "content-type": "application/json",
        "user-agent": "provision-reaper",
        "webhook-id": str(notice_id),
        "webhook-timestamp": str(floor(moment.timestamp())),
    }
    if secret is not None:
        webhook = Webhook(secret.get_secret_value())
        headers["webhook-signature"] = webhook.sign(str(notice_id), moment, body.decode())
    return headers


async def post(url: str, headers: Mapping[str, str], body: bytes, *, trusted: bool) -> Reply:
    """Send once. Follows no redirect, verifies TLS, and reads nothing but the answer's head.

    Args:
        trusted: the operator's own URL, which may lead to any address. Any other reaches public
            addresses only: none is dialled where one of the host's addresses is not.
    """
    target = parsed(url)
    if target is None:
        return Unsendable("malformed: not an http or https URL with a host")
    try:
        async with asyncio.timeout(DEADLINE):
            return await _post(target, headers, body, trusted=trusted)
    except TimeoutError:
        return NoAnswer(f"no answer within {DEADLINE:g} seconds")
    except Unresolved:
        return NoAnswer("the host name does not resolve")
    # Whatever the client raises may hold the URL, and a URL that breaks it must not come back
    # unrecorded in every sweep.
    except Exception as error:  # noqa: BLE001
        return NoAnswer(_in_words(error))


async def _post(
    target: httpx.URL, headers: Mapping[str, str], body: bytes, *, trusted: bool
) -> Reply:
    port = target.port or (443 if target.scheme == "https" else 80)
    addresses = await resolve(target.raw_host, port)
    if not trusted:
        for address in addresses:
            if not is_public(address):
                return Unsendable(f"blocked: {origin(target)} leads to {address}, not public")
    unreachable: httpx.TransportError | None = None
    for address in addresses[:ADDRESSES_TRIED]:
        try:
            return await _post_to(address, target, headers, body, trusted=trusted)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            unreachable = error
    raise unreachable or Unresolved


async def _post_to(
    address: IPAddress,
    target: httpx.URL,
    headers: Mapping[str, str],
    body: bytes,
    *,
    trusted: bool,
) -> Answer:
    """Send to one address, under the name that the URL gives: in Host, in SNI and to TLS.

    httpx-secure judges the address once more where the socket is opened. Left to look up names by
    itself, it would dial an address before judging it, and only the one address that it picked.
    (Microsoft's AntiSSRF guards `requests` alone.)
    """
    transport = httpx.AsyncHTTPTransport(verify=_tls(), trust_env=False)
    async with httpx.AsyncClient(transport=transport, trust_env=False) as client:
        if not trusted:
            httpx_ssrf_protection(client, custom_validator=_may_be_dialled)
        request = httpx.Request(
            "POST",
            target.copy_with(host=str(address)),
            headers={**headers, **_authorization(target), "host": target.netloc.decode()},
            content=body,
            extensions={
                "sni_hostname": target.raw_host.decode(),
                "timeout": {"connect": CONNECT_TIMEOUT},
            },
        )
        # The client would log the whole URL at INFO; its transport logs none of it.
        response = await transport.handle_async_request(request)
        await response.aclose()
        return Answer(response.status_code, response.headers.get("retry-after"))


def _may_be_dialled(_host: str, address: IPAddress, _port: int) -> bool:
    return is_public(address)


def _authorization(target: httpx.URL) -> dict[str, str]:
    if not target.userinfo:
        return {}
    pair = f"{target.username}:{target.password}".encode()
    return {"authorization": f"Basic {base64.b64encode(pair).decode()}"}


@cache
def _tls() -> ssl.SSLContext:
    """Verifies against the usual authorities, or those of the operator's SSL_CERT_FILE."""
    return httpx.create_ssl_context()


def _in_words(error: Exception) -> str:
    """What an exception's class says, and its root cause's; never its text."""
    root: BaseException = error
    while cause := root.__cause__ or root.__context__:
        root = cause
    names = dict.fromkeys([type(error).__name__, type(root).__name__])
    return f"could not be sent ({', '.join(names)})"
