"""The one client for addresses that a merchant chose: resolve, judge, dial that very address.

Nothing that leaves this module holds more of a URL than its scheme and host: what a library raises
may carry all of it, so it ends here, as words of our own.
"""

import asyncio
import base64
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import httpcore
import httpx

from provisioning.errors import Unresolved
from provisioning.http.addresses import IPAddress, is_public, resolve
from provisioning.http.urls import origin, parsed

CONNECT_TIMEOUT = 3.0
"""Seconds for one address of a host that has several."""

ADDRESSES_TRIED = 3
"""The most addresses of one host that are dialled for one request."""

_INSIDE = ("localhost", "local", "internal", "lan", "home.arpa")
"""Names that never lead to the public internet (RFC 6761, RFC 6762, RFC 8375, and habit)."""


@dataclass(frozen=True)
class Answer:
    """The server answered. `retry_after` is its header, verbatim."""

    status: int
    retry_after: str | None


@dataclass(frozen=True)
class NoAnswer:
    """Nothing was heard; a later request may fare better.

    Attributes:
        reason: the same words for an open port and a closed one.
        detail: what exactly happened, for the operator alone.
    """

    reason: str
    detail: str = ""
    timed_out: bool = False

    def __str__(self) -> str:
        return f"{self.reason} ({self.detail})" if self.detail else self.reason


@dataclass(frozen=True)
class Unsendable:
    """The URL can't be asked, now or later. Nothing was dialled."""

    reason: str

    def __str__(self) -> str:
        return self.reason


Reply = Answer | NoAnswer | Unsendable

SILENCE = "no answer"


class _Blocked(Exception):
    """The host leads to an address that is not public."""


async def ask(
    method: str,
    url: str,
    *,
    trusted: bool,
    seconds: float,
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    proxy: str | None = None,
) -> Reply:
    """Ask once. Follows no redirect, verifies TLS, and reads nothing but the answer's head.

    Never raises but on cancellation, and what it returns holds no more of the URL than its origin.

    Args:
        trusted: the operator's own URL, which may lead to any address. Any other reaches public
            addresses only: none is dialled where one of the host's addresses is not.
        seconds: for all of it, from looking up the name to the head of the answer.
        proxy: the URL of the proxy that leads out, if this network has no other way. A trusted
            host with a private address is inside, and is dialled directly.
    """
    target = parsed(url)
    if target is None:
        return Unsendable("malformed: not an http or https URL with a host")
    try:
        async with asyncio.timeout(seconds):
            return await _ask(target, method, headers or {}, body, trusted=trusted, proxy=proxy)
    except TimeoutError:
        return NoAnswer(SILENCE, f"none within {seconds:g} seconds", timed_out=True)
    except Unresolved:
        return NoAnswer("the host name does not resolve")
    except _Blocked as blocked:
        return Unsendable(f"blocked: {origin(target)} leads to {blocked}")
    # A URL that breaks a library must not come back unrecorded in every sweep.
    except Exception as error:  # noqa: BLE001
        return NoAnswer(SILENCE, _in_words(error))


async def _ask(
    target: httpx.URL,
    method: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    trusted: bool,
    proxy: str | None,
) -> Answer:
    port = target.port or (443 if target.scheme == "https" else 80)
    addresses = await _judged(target, port, trusted=trusted, proxied=proxy is not None)
    inside = trusted and any(not is_public(address) for address in addresses)
    # DNS takes a name with a dot at its end; certificates and SNI have it without one.
    host = target.raw_host.rstrip(b".")
    sent = {
        "host": target.netloc.decode(),
        "user-agent": "provision-reaper",
        "accept": "*/*",
        **({"content-length": str(len(body))} if body else {}),
        **_authorization(target),
        **headers,
    }
    url = httpcore.URL(scheme=target.raw_scheme, host=host, port=port, target=target.raw_path)
    request = httpcore.Request(method, url, headers=list(sent.items()), content=body)
    async with _pool(addresses, None if inside else proxy) as pool:
        response = await pool.handle_async_request(request)
        await response.aclose()
    wait = next((value for name, value in response.headers if name.lower() == b"retry-after"), None)
    return Answer(response.status, wait[:100].decode("latin-1") if wait is not None else None)


async def _judged(target: httpx.URL, port: int, *, trusted: bool, proxied: bool) -> list[IPAddress]:
    """The addresses that may be dialled.

    Behind a proxy a name may have an address that is known outside alone: then the list is empty,
    and only a name that can't be of the public internet is refused.
    """
    try:
        addresses = await resolve(target.raw_host, port)
    except Unresolved:
        if not proxied:
            raise
        name = target.raw_host.decode().lower().rstrip(".")
        if not trusted and ("." not in name or name.endswith(tuple(f".{n}" for n in _INSIDE))):
            raise _Blocked("a name that is not public") from None
        return []
    for address in addresses:
        if not (trusted or is_public(address)):
            raise _Blocked(f"{address}, not public")
    return addresses


def _pool(addresses: list[IPAddress], proxy: str | None) -> httpcore.AsyncConnectionPool:
    if proxy is None:
        return httpcore.AsyncConnectionPool(
            ssl_context=_tls(), network_backend=_Dialling(addresses)
        )
    way_out = httpx.URL(proxy)
    return httpcore.AsyncHTTPProxy(
        httpcore.URL(
            scheme=way_out.raw_scheme,
            host=way_out.raw_host,
            port=way_out.port or (443 if way_out.scheme == "https" else 80),
            target=b"/",
        ),
        proxy_auth=(way_out.username.encode(), way_out.password.encode())
        if way_out.userinfo
        else None,
        ssl_context=_tls(),
    )


class _Dialling(httpcore.AsyncNetworkBackend):
    """Dials the addresses that were judged, in order, whatever name a connection is opened for."""

    def __init__(self, addresses: list[IPAddress]) -> None:
        self.addresses = addresses

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  (the signature is httpcore's)
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        away: Exception = Unresolved()
        for address in self.addresses[:ADDRESSES_TRIED]:
            try:
                return await httpcore.AnyIOBackend().connect_tcp(
                    str(address), port, timeout=CONNECT_TIMEOUT
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                away = error
        raise away


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
    return ", ".join(dict.fromkeys([type(error).__name__, type(root).__name__]))
