"""The one guarded client: names of every kind, a proxy, and words that tell nobody too much."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import closing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from provisioning.chain.health import require_healthy
from provisioning.errors import NotYet
from provisioning.http.client import Answer, NoAnswer, Reply, Unsendable, ask
from provisioning.http.urls import shown
from tests.outbox.owing import Network
from tests.outbox.receivers import Receiver, Request, answering, receiving

PUBLIC = "93.184.215.14"


async def get(url: str, *, trusted: bool = False, proxy: str | None = None) -> Reply:
    return await ask("GET", url, trusted=trusted, seconds=5, proxy=proxy)


@pytest.mark.parametrize(
    ("written", "in_dns", "seen"),
    [
        ("xn--i-7iq.ws", "xn--i-7iq.ws", "xn--i-7iq.ws"),
        ("i❤️.ws", "xn--i-7iq.ws", "xn--i-7iq.ws"),
        ("I❤.WS", "xn--i-7iq.ws", "xn--i-7iq.ws"),
        ("☃.net", "xn--n3h.net", "xn--n3h.net"),
        ("faß.example", "xn--fa-hia.example", "faß.example"),
        ("ＳＨＯＰ。example", "shop.example", "shop.example"),
        ("例え.jp", "xn--r8jz45g.jp", "例え.jp"),
        ("xn--a.example", "xn--a.example", "xn--a.example"),
        ("a_b.example", "a_b.example", "a_b.example"),
        ("merchant.example.", "merchant.example.", "merchant.example."),
    ],
)
@pytest.mark.guarantee(
    fault="domains whose names IDNA refuses, and that work all the same (G02)",
    holds="asked under the name that DNS has; shown as xn-- where it can't be decoded",
    guard="with httpx's own reading, `xn--i-7iq.ws` raises where it is shown, and ❤ is malformed",
)
async def test_g02_every_domain_that_exists_is_asked(
    receiver: Receiver, network: Network, written: str, in_dns: str, seen: str
) -> None:
    network.names[in_dns] = [PUBLIC]
    network.routes[PUBLIC] = receiver.port
    assert await get(f"http://{written}/hook") == Answer(204, None)
    assert receiver.requests[0].headers["host"] == in_dns
    assert shown(f"http://{written}/hook") == f"http://{seen}"
    await require_healthy("http://{domain}/", written)


@pytest.mark.parametrize(
    "host", ["localhost", "2130706433", "metadata.example", "both.example", "[::ffff:127.0.0.1]"]
)
@pytest.mark.guarantee(
    fault="a health check of a domain that leads inside (G22)",
    holds="nothing is dialled, and an open port reads like a closed one",
)
async def test_g22_a_domain_that_leads_inside_is_not_dialled_and_tells_no_port(
    receiver: Receiver, network: Network, host: str
) -> None:
    network.names["metadata.example"] = ["169.254.169.254"]
    network.names["both.example"] = [PUBLIC, "10.0.0.1"]
    said = set()
    for port in (receiver.port, closed_port()):
        with pytest.raises(NotYet) as caught:
            await require_healthy(f"http://{{domain}}:{port}/", host)
        said.add(str(caught.value))
    assert len(said) == 1
    assert network.dialled == []


async def greeting(_request: Request, writer: asyncio.StreamWriter) -> None:
    writer.write(b"SSH-2.0-OpenSSH_9.9\r\n")


async def hanging_up(_request: Request, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def test_an_open_port_that_speaks_no_http_reads_like_a_closed_one(
    receiver: Receiver, network: Network
) -> None:
    network.names["merchant.example"] = [PUBLIC]
    reasons = set()
    for behaviour in (greeting, hanging_up):
        network.routes[PUBLIC], receiver.default = receiver.port, behaviour
        reply = await get("http://merchant.example/")
        assert isinstance(reply, NoAnswer)
        reasons.add(reply.reason)
    network.routes[PUBLIC] = closed_port()
    for scheme in ("http", "https"):
        reply = await get(f"{scheme}://merchant.example/")
        assert isinstance(reply, NoAnswer)
        reasons.add(reply.reason)
    assert reasons == {"no answer"}


async def test_the_operators_host_is_trusted_only_where_the_domain_can_not_change_it(
    receiver: Receiver, network: Network
) -> None:
    port = receiver.port
    await require_healthy(f"http://127.0.0.1:{port}/?site={{domain}}", "a b@c/d")
    for template, domain in [
        (f"http://{{domain}}:{port}/", "127.0.0.1"),
        ("http://{domain}@merchant.example/", f"127.0.0.1:{port}/"),
        (f"http://127.0.0.{{domain}}:{port}/", "1"),
    ]:
        network.dialled.clear()
        with pytest.raises(NotYet):
            await require_healthy(template, domain)
        assert network.dialled == []


@pytest.fixture
async def proxy() -> AsyncIterator[Receiver]:
    """A proxy that answers in place of whatever it is asked for."""
    async with receiving() as proxy:
        yield proxy


async def test_a_network_with_a_proxy_gets_out_through_it_and_dials_nothing_else(
    proxy: Receiver, network: Network
) -> None:
    network.names["known.example"] = [PUBLIC]
    way_out = proxy.url("").replace("//", "//user:p%40ss@")
    for host in ("known.example", "known-outside-alone.example"):
        assert await get(f"http://{host}/hook?a=1", proxy=way_out) == Answer(204, None)
        assert proxy.requests[-1].target == f"http://{host}:80/hook?a=1"
        assert proxy.requests[-1].headers["proxy-authorization"] == "Basic dXNlcjpwQHNz"
        await get(f"https://{host}/hook", proxy=way_out)
        assert (proxy.requests[-1].method, proxy.requests[-1].target) == ("CONNECT", f"{host}:443")
    assert set(network.dialled) == {"127.0.0.1"}


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "2130706433", "[::1]", "localhost", "inside.example", "metadata", "a.internal"],
)
async def test_a_proxy_is_asked_for_no_host_that_is_not_public(
    proxy: Receiver, network: Network, host: str
) -> None:
    network.names["inside.example"] = ["10.0.0.1"]
    reply = await get(f"http://{host}/", proxy=proxy.url(""))
    assert isinstance(reply, Unsendable)
    assert reply.reason.startswith("blocked: ")
    assert proxy.connections == 0


async def test_the_operators_own_host_inside_is_asked_directly(
    proxy: Receiver, receiver: Receiver
) -> None:
    assert await get(receiver.url(), trusted=True, proxy=proxy.url("")) == Answer(204, None)
    assert (proxy.connections, receiver.connections) == (0, 1)


async def test_a_proxy_that_refuses_is_no_answer_from_the_receiver(proxy: Receiver) -> None:
    proxy.default = answering(403)
    reply = await get("https://known-outside-alone.example/", proxy=proxy.url(""))
    assert reply == NoAnswer("no answer", "ProxyError")


@given(st.text(max_size=60), st.sampled_from(["", "http://", "https://", "https://merchant."]))
@settings(
    max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
async def test_no_text_makes_it_raise(network: Network, text: str, before: str) -> None:
    assert isinstance(await get(before + text), (NoAnswer, Unsendable))
    shown(before + text)


def closed_port() -> int:
    """A port on which nobody listens."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port: int = server.getsockname()[1]
        return port
