"""The Forge-shaped client against a real HTTP server: what passes, what is final, what is told."""

import asyncio
import logging
from typing import Any

import pytest
from pydantic import SecretStr

from provisioning.chain import forge as forge_module
from provisioning.chain import health
from provisioning.chain.forge import ForgeUpstream, forge
from provisioning.chain.health import require_healthy
from provisioning.chain.upstream import UpstreamSite, find_or_create, require_installed
from provisioning.errors import NotYet, SettingsInvalid, UpstreamRefused
from provisioning.settings import Settings
from tests.chain.forge_server import LOST, SERVER, TOKEN, ForgeServer, Spoilt

DOMAIN = "shop-1.example"


@pytest.fixture
def client(forge: ForgeServer) -> ForgeUpstream:
    return ForgeUpstream(f"{forge.url}/api", SecretStr(TOKEN), SERVER)


async def test_a_site_is_made_and_read(forge: ForgeServer, client: ForgeUpstream) -> None:
    assert await client.find(DOMAIN) is None
    made = await find_or_create(client, DOMAIN)
    assert made == UpstreamSite("100", "installing")
    assert await client.read("100") == UpstreamSite("100", "installed")
    assert await client.find("SHOP-1.example") == made
    assert await client.find("other.example") is None


async def test_a_lost_answer_to_the_create_makes_no_second_site(
    forge: ForgeServer, client: ForgeUpstream
) -> None:
    forge.spoil("POST", LOST)
    with pytest.raises(NotYet, match=r"no answer to POST /servers/12/sites \("):
        await find_or_create(client, DOMAIN)
    assert (await find_or_create(client, DOMAIN)).id == "100"
    assert len(forge.sites) == forge.creates() == 1


async def test_a_create_that_comes_through_late_is_found_after_the_refusal(
    forge: ForgeServer, client: ForgeUpstream
) -> None:
    forge.spoil("GET", Spoilt(200, body='{"sites": []}'))
    forge.sites.append({"id": 55, "name": DOMAIN})
    assert (await find_or_create(client, DOMAIN)).id == "55"


async def test_a_refusal_is_final_and_quotes_the_upstream(
    forge: ForgeServer, client: ForgeUpstream
) -> None:
    forge.spoil("POST", Spoilt(422, body='{"domain": ["The domain is not allowed."]}'))
    with pytest.raises(UpstreamRefused, match=r"answered 422 to POST .* not allowed"):
        await find_or_create(client, DOMAIN)


@pytest.mark.parametrize(
    ("status", "headers", "wait"),
    [(429, {"retry-after": "120"}, 120), (429, {}, 0), (502, {}, 0), (503, {}, 0), (504, {}, 0)],
)
async def test_a_passing_answer_may_be_asked_for_again(
    forge: ForgeServer,
    client: ForgeUpstream,
    status: int,
    headers: dict[str, str],
    wait: int,
) -> None:
    forge.spoil("GET", Spoilt(status, headers))
    with pytest.raises(NotYet, match=f"answered {status} to GET") as caught:
        await client.find(DOMAIN)
    assert caught.value.wait.total_seconds() == wait


@pytest.mark.parametrize("status", [301, 302, 400, 401, 403, 404, 409, 422, 500, 501])
async def test_every_other_answer_is_final(
    forge: ForgeServer, client: ForgeUpstream, status: int
) -> None:
    forge.spoil("GET", Spoilt(status, {"location": f"{forge.url}/elsewhere"}))
    with pytest.raises(UpstreamRefused, match=f"answered {status} to GET"):
        await client.read("100")
    assert forge.asked == ["GET 100"]


@pytest.mark.parametrize("body", ["", "<html>", "[]", '{"site": {"id": 1}}', '{"sites": {}}'])
async def test_an_answer_of_another_shape_is_final(
    forge: ForgeServer, client: ForgeUpstream, body: str
) -> None:
    forge.spoil("GET", Spoilt(200, body=body), Spoilt(200, body=body))
    with pytest.raises(UpstreamRefused, match="another shape"):
        await client.read("100")
    with pytest.raises(UpstreamRefused, match="another shape"):
        await client.find(DOMAIN)


async def test_an_upstream_that_is_away_may_be_asked_again() -> None:
    nobody = ForgeUpstream("http://127.0.0.1:9/api", SecretStr(TOKEN), SERVER)
    with pytest.raises(NotYet, match=r"no answer to GET /servers/12/sites \(ConnectError\)"):
        await nobody.find(DOMAIN)


async def test_a_call_ends_within_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forge_module, "CALL_SECONDS", 0.3)

    async def drip(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n")
        for _ in range(20):
            writer.write(b" ")
            await asyncio.sleep(0.1)
        writer.close()

    server = await asyncio.start_server(drip, "127.0.0.1", 0)
    async with server, asyncio.timeout(1):
        port = server.sockets[0].getsockname()[1]
        slow = ForgeUpstream(f"http://127.0.0.1:{port}", SecretStr(TOKEN), SERVER)
        with pytest.raises(NotYet, match="TimeoutError"):
            await slow.find(DOMAIN)


async def test_the_token_is_in_no_error_log_or_repr(
    forge: ForgeServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    wrong = ForgeUpstream(f"{forge.url}/api", SecretStr("secret-4711"), SERVER)
    with pytest.raises(UpstreamRefused, match=r"answered 401 .*Bearer \[token\]") as caught:
        await wrong.find(DOMAIN)
    assert "4711" not in f"{caught.value!r} {caught.value.__cause__!r} {wrong!r} {caplog.text}"


@pytest.mark.parametrize("status", [None, "queued", "installing", "Installed", "removing", "🦆\n"])
def test_every_status_but_installed_is_waited_for_and_told_as_it_is(status: Any) -> None:
    with pytest.raises(NotYet, match="the upstream says") as caught:
        require_installed(UpstreamSite("100", status or "none"))
    assert (status or "none").strip() in str(caught.value)


def test_an_installed_site_passes_and_a_broken_one_is_final() -> None:
    require_installed(UpstreamSite("100", "installed"))
    with pytest.raises(UpstreamRefused, match="'failed'"):
        require_installed(UpstreamSite("100", "failed"))


@pytest.mark.parametrize(
    ("answer", "healthy"), [(200, True), (204, True), (302, True), (404, False), (502, False)]
)
async def test_a_site_is_healthy_where_it_answers(
    forge: ForgeServer, answer: int, healthy: bool
) -> None:
    forge.health.append(answer)
    if healthy:
        await require_healthy(forge.health_url, DOMAIN)
    else:
        with pytest.raises(NotYet, match=f"the site answers {answer}"):
            await require_healthy(forge.health_url, DOMAIN)
    assert forge.asked == [f"GET {DOMAIN}"]


async def test_a_merchants_domain_leads_to_no_private_address(forge: ForgeServer) -> None:
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


BASE: dict[str, Any] = {"database_url": "postgresql://x/y"}


def test_what_the_upstream_needs_is_named_where_it_is_missing() -> None:
    with pytest.raises(SettingsInvalid, match=r"PROVISION_UPSTREAM_URL and .*_TOKEN and .*_SERVER"):
        forge(Settings(**BASE))
    with pytest.raises(SettingsInvalid, match=r"^PROVISION_UPSTREAM_TOKEN not set"):
        forge(Settings(**BASE, upstream_url="https://api.example", upstream_server="1"))


@pytest.mark.parametrize(
    "wrong",
    [
        {"upstream_url": "api.example"},
        {"upstream_url": "https://user:secret@api.example"},
        {"upstream_token": "two words"},
        {"upstream_token": "schlüssel"},
        {"health_url": "https://shop.example/"},
        {"health_url": "{domain}"},
    ],
)
def test_a_setting_that_can_not_work_is_refused_and_not_shown(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))) as caught:
        Settings(**BASE, **wrong)
    assert "secret@" not in str(caught.value)


def test_a_tokens_line_break_is_no_part_of_it() -> None:
    token = Settings(**BASE, upstream_token="abc\n").upstream_token
    assert token
    assert token.get_secret_value() == "abc"
