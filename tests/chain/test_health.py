"""The health check: which answers are health, and where it may lead."""

import asyncio

import pytest

from provisioning.chain import health
from provisioning.chain.health import require_healthy
from provisioning.errors import NotYet
from tests.chain.stub_server import StubServer

DOMAIN = "shop-1.example"


@pytest.mark.parametrize(
    ("answer", "healthy"), [(200, True), (204, True), (302, True), (404, False), (502, False)]
)
async def test_a_site_is_healthy_where_it_answers(
    forge: StubServer, answer: int, healthy: bool
) -> None:
    forge.health.append(answer)
    if healthy:
        await require_healthy(forge.health_url, DOMAIN)
    else:
        with pytest.raises(NotYet, match=f"the site answers {answer}"):
            await require_healthy(forge.health_url, DOMAIN)
    assert forge.asked == [f"GET {DOMAIN}"]


async def test_a_merchants_domain_leads_to_no_private_address(forge: StubServer) -> None:
    port = forge.url.rsplit(":", 1)[1]
    for domain in ("127.0.0.1", "localhost"):
        with pytest.raises(NotYet, match="does not answer"):
            await require_healthy(f"http://{{domain}}:{port}/visit/x", domain)
    assert forge.asked == []


async def test_a_health_check_ends_within_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "CALL_SECONDS", 0.2)

    async def silent(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(1)
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    async with server, asyncio.timeout(0.9):
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(NotYet, match="does not answer"):
            await require_healthy(f"http://127.0.0.1:{port}/{{domain}}", DOMAIN)


@pytest.mark.parametrize("domain", ["127.0.0.1", "localhost", "2130706433", "[::1]"])
async def test_an_open_port_inside_is_told_in_the_same_words_as_a_closed_one(
    forge: StubServer, domain: str
) -> None:
    told = set[str]()
    for port in (forge.url.rsplit(":", 1)[1], "9"):
        with pytest.raises(NotYet) as caught:
            await require_healthy(f"http://{{domain}}:{port}/visit/x", domain)
        told.add(str(caught.value))
    assert len(told) == 1
    assert forge.asked == []
