"""Both versions of Forge's API on a real HTTP server: what passes, what is final, what is told."""

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from provisioning.chain import api
from provisioning.chain.api import Api, wish
from provisioning.chain.forge import STANDINGS, Forge, ForgeV1
from provisioning.chain.forge import forge as forge_of
from provisioning.chain.upstream import (
    Claim,
    Standing,
    Upstream,
    UpstreamSite,
    find_or_create,
    require_ready,
)
from provisioning.errors import NotYet, SettingsInvalid, UpstreamRefused
from provisioning.settings import Settings
from tests.chain.conftest import BOTH_VERSIONS, client_of
from tests.chain.forge_server import LOST, SERVER, TOKEN, ForgeV1Server, Spoilt
from tests.chain.stub_server import StubServer

DOMAIN = "shop-1.example"
CLAIM = Claim("3000000001", "2025-01-15T14:00:00.000000Z", DOMAIN)


async def make(client: Upstream) -> UpstreamSite:
    return await find_or_create(client, DOMAIN, CLAIM)


@BOTH_VERSIONS
async def test_a_site_is_made_and_read(forge: StubServer, client: Upstream) -> None:
    assert await client.find(DOMAIN, CLAIM.marker) == []
    made = await make(client)
    assert (made.id, made.status, made.standing) == ("100", "installing", Standing.COMING)
    now = await client.read("100")
    assert (now.id, now.status, now.standing) == ("100", "installed", Standing.READY)
    forge.sites[0]["name"] = "SHOP-1.Example"
    (found,) = await client.find(DOMAIN, CLAIM.marker)
    assert found.id == "100"
    assert await client.find("hop-1.example", CLAIM.marker) == [], (
        "a part of a name is another name"
    )
    assert await client.find("other.example", CLAIM.marker) == []


async def test_a_site_is_marked_with_a_tag(forge: StubServer, client: Upstream) -> None:
    await make(client)
    assert forge.sites == [{"id": 100, "name": DOMAIN, "tags": [CLAIM.marker]}]
    (found,) = await client.find(DOMAIN, CLAIM.marker)
    assert found.marks == {CLAIM.marker}


async def test_a_domain_is_found_on_whatever_page_it_is(
    forge: StubServer, client: Upstream
) -> None:
    forge.sites += [{"id": n, "name": f"{n}.{DOMAIN}"} for n in range(1, 251)]
    forge.sites.append({"id": 251, "name": DOMAIN})
    (found,) = await client.find(DOMAIN, CLAIM.marker)
    assert found.id == "251"
    assert forge.asked == ["GET sites"] * 3


async def test_an_upstream_whose_pages_never_end_is_left(
    forge: StubServer, client: Upstream
) -> None:
    pages = [f'{{"data": [], "meta": {{"next_cursor": "{n}"}}}}' for n in range(60)]
    forge.spoil("GET", *[Spoilt(200, body=page) for page in pages])
    with pytest.raises(UpstreamRefused, match="more than 50 pages"):
        await client.find(DOMAIN, CLAIM.marker)


async def test_a_lost_answer_to_the_create_makes_no_second_site(
    forge: StubServer, client: Upstream
) -> None:
    forge.spoil("POST", LOST)
    with pytest.raises(NotYet, match=r"no answer to POST /orgs/acme/servers/12/sites \("):
        await make(client)
    assert (await make(client)).id == "100"
    assert len(forge.sites) == forge.creates() == 1


@pytest.mark.parametrize(
    "body", ["", "{}", '{"message": "Accepted"}', '{"data": null}', '{"data": {"id": ""}}']
)
async def test_an_accepted_create_without_a_site_in_its_answer_is_a_lost_answer(
    forge: StubServer, client: Upstream, body: str
) -> None:
    forge.spoil("POST", Spoilt(202, body=body))
    with pytest.raises(NotYet, match="has another shape" if body else "is no JSON"):
        await make(client)


async def test_a_create_that_comes_through_late_is_found_after_the_refusal(
    forge: StubServer, client: Upstream
) -> None:
    forge.spoil("GET", Spoilt(200, body='{"data": []}'))
    forge.sites.append({"id": 55, "name": DOMAIN, "tags": [CLAIM.marker]})
    assert (await make(client)).id == "55"


@pytest.mark.parametrize("forge", [ForgeV1Server], indirect=True)
async def test_without_marks_a_lost_answer_is_not_guessed_at(
    forge: StubServer, client: Upstream
) -> None:
    forge.spoil("POST", LOST)
    with pytest.raises(NotYet):
        await make(client)
    with pytest.raises(UpstreamRefused, match="already has site 100 with this domain, and nothing"):
        await make(client)
    assert len(forge.sites) == forge.creates() == 1


@BOTH_VERSIONS
async def test_a_refusal_is_final_and_quotes_the_upstream(
    forge: StubServer, client: Upstream
) -> None:
    forge.spoil("POST", Spoilt(422, body='{"message": "The domain is not allowed."}'))
    with pytest.raises(UpstreamRefused, match=r"answered 422 to POST .* not allowed"):
        await make(client)


@BOTH_VERSIONS
@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529, 530])
@pytest.mark.parametrize("wait", [None, 120])
async def test_a_passing_answer_may_be_asked_for_again(
    forge: StubServer, client: Upstream, status: int, wait: int | None
) -> None:
    forge.spoil("GET", Spoilt(status, {"retry-after": str(wait)} if wait else {}))
    with pytest.raises(NotYet, match=f"answered {status} to GET") as caught:
        await client.find(DOMAIN, CLAIM.marker)
    assert caught.value.wait.total_seconds() == (wait or 0)


@BOTH_VERSIONS
@pytest.mark.parametrize("status", [301, 302, 400, 401, 403, 404, 409, 422, 501, 505])
async def test_every_other_answer_is_final(
    forge: StubServer, client: Upstream, status: int
) -> None:
    forge.spoil("GET", Spoilt(status, {"location": f"{forge.url}/elsewhere"}))
    with pytest.raises(UpstreamRefused, match=f"answered {status} to GET"):
        await client.find(DOMAIN, CLAIM.marker)
    assert forge.asked == ["GET sites"]


@BOTH_VERSIONS
async def test_a_site_that_is_not_known_under_its_id_yet_is_asked_for_again(
    forge: StubServer, client: Upstream
) -> None:
    with pytest.raises(NotYet, match=r"answered 404 to GET .*sites/100"):
        await client.read("100")


@BOTH_VERSIONS
@pytest.mark.parametrize("body", ["[]", "null", "5", '{"data": {"id": 1}}', '{"sites": {}}'])
async def test_an_answer_of_another_shape_is_final(
    forge: StubServer, client: Upstream, body: str
) -> None:
    forge.spoil("GET", Spoilt(200, body=body), Spoilt(200, body=body))
    with pytest.raises(UpstreamRefused, match="another shape"):
        await client.read("100")
    with pytest.raises(UpstreamRefused, match="another shape"):
        await client.find(DOMAIN, CLAIM.marker)


async def test_an_upstream_that_is_away_may_be_asked_again() -> None:
    nobody = ForgeV1(Api("http://127.0.0.1:9/api", SecretStr(TOKEN)), SERVER)
    with pytest.raises(NotYet, match=r"no answer to GET /servers/12/sites \(ConnectError\)"):
        await nobody.find(DOMAIN, CLAIM.marker)


async def test_a_call_ends_within_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "CALL_SECONDS", 0.3)

    async def drip(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n")
        for _ in range(20):
            writer.write(b" ")
            await asyncio.sleep(0.1)
        writer.close()

    server = await asyncio.start_server(drip, "127.0.0.1", 0)
    async with server, asyncio.timeout(1):
        port = server.sockets[0].getsockname()[1]
        slow = ForgeV1(Api(f"http://127.0.0.1:{port}", SecretStr(TOKEN)), SERVER)
        with pytest.raises(NotYet, match="TimeoutError"):
            await slow.find(DOMAIN, CLAIM.marker)


NOW = datetime(2025, 1, 15, 15, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("status", "headers", "seconds"),
    [
        pytest.param(429, {"retry-after": "54"}, 54, id="Retry-After"),
        pytest.param(429, {"x-ratelimit-reset": str(int(NOW.timestamp()) + 31)}, 31, id="reset"),
        pytest.param(429, {"x-ratelimit-reset": str(int(NOW.timestamp()) - 31)}, 0, id="past"),
        pytest.param(429, {"x-ratelimit-reset": "9" * 30}, 300, id="a clock that is wrong"),
        pytest.param(429, {"x-ratelimit-reset": "9" * 5000}, 300, id="too many digits"),
        pytest.param(429, {"x-ratelimit-reset": "-31"}, 0, id="a reset before 1970"),
        pytest.param(503, {"retry-after": "Wed, 15 Jan 2025 15:31:00 GMT"}, 60, id="a date"),
        pytest.param(503, {"retry-after": "Wed, 15 Jan 2025 15:00:00 GMT"}, 0, id="a past date"),
        pytest.param(503, {"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT"}, 86400, id="far ahead"),
        pytest.param(503, {"retry-after": "-5"}, 0, id="negative"),
        pytest.param(503, {"retry-after": "1e9"}, 0, id="no digits alone"),
        pytest.param(503, {"retry-after": "9" * 5000}, 0, id="absurd"),
        pytest.param(429, {"x-ratelimit-reset": "soon"}, 0, id="no number"),
        pytest.param(503, {"x-ratelimit-reset": str(int(NOW.timestamp()) + 31)}, 0, id="no limit"),
        pytest.param(429, {}, 0, id="nothing said"),
    ],
)
def test_how_long_the_upstream_wants_to_be_left_alone(
    status: int, headers: dict[str, str], seconds: int
) -> None:
    assert wish(httpx.Response(status, headers=headers), NOW) == timedelta(seconds=seconds)


@BOTH_VERSIONS
async def test_the_token_is_in_no_error_log_or_repr(
    forge: StubServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    wrong = client_of(forge, "secret-4711")
    with pytest.raises(UpstreamRefused, match=r"answered 401 .*Bearer \[token\]") as caught:
        await wrong.find(DOMAIN, CLAIM.marker)
    assert "4711" not in f"{caught.value!r} {caught.value.__cause__!r} {wrong!r} {caplog.text}"


@BOTH_VERSIONS
@pytest.mark.parametrize("status", [*STANDINGS, None, "", "Installed", "brewing", "🦆\n", 5, ["x"]])
async def test_a_status_means_what_forge_means_by_it(
    forge: StubServer, client: Upstream, status: Any
) -> None:
    forge.sites.append({"id": 100, "name": DOMAIN})
    forge.status = status
    site = await client.read("100")
    known = STANDINGS.get(str(status), Standing.UNKNOWN) if status else Standing.COMING
    assert site.standing is known


def site(status: str, standing: Standing) -> UpstreamSite:
    return UpstreamSite("100", status, standing)


def test_ready_broken_leaving_coming_and_unknown_are_told_apart() -> None:
    require_ready(site("never-deployed", Standing.READY))
    with pytest.raises(UpstreamRefused, match=r"says 'failed' of its site 100$"):
        require_ready(site("failed", Standing.BROKEN))
    with pytest.raises(UpstreamRefused, match=r"says 'removing' .*, so somebody is removing it$"):
        require_ready(site("removing", Standing.LEAVING))
    with pytest.raises(NotYet, match=r"says 'installing' of its site 100$"):
        require_ready(site("installing", Standing.COMING))
    with pytest.raises(
        NotYet, match=r"says 'bre wing' .*, a status that this program does not know"
    ):
        require_ready(site("bre\nwing", Standing.UNKNOWN))


BASE: dict[str, Any] = {"database_url": "postgresql://x/y"}
UPSTREAM: dict[str, Any] = BASE | {"upstream_token": "t", "upstream_server": "1"}


def test_what_the_upstream_needs_is_named_where_it_is_missing() -> None:
    with pytest.raises(SettingsInvalid, match=r"PROVISION_UPSTREAM_URL and .*_TOKEN and .*_SERVER"):
        forge_of(Settings(**BASE))
    with pytest.raises(SettingsInvalid, match=r"^PROVISION_UPSTREAM_TOKEN not set"):
        forge_of(Settings(**BASE, upstream_url="https://api.example", upstream_server="1"))


def test_an_organization_means_forge_as_it_is_today() -> None:
    url = "https://forge.example/api"
    today = forge_of(Settings(**UPSTREAM, upstream_url=url, upstream_organization="acme"))
    assert isinstance(today, Forge)
    assert today.organization == "acme"
    assert isinstance(forge_of(Settings(**UPSTREAM, upstream_url=f"{url}/v1")), ForgeV1)
    with pytest.raises(SettingsInvalid, match=r"ends in /v1, which knows no .*_ORGANIZATION"):
        forge_of(Settings(**UPSTREAM, upstream_url=f"{url}/v1/", upstream_organization="acme"))


def test_forge_itself_is_spoken_to_as_it_is_today_or_not_at_all() -> None:
    own = "https://FORGE.laravel.com/api/"
    with pytest.raises(SettingsInvalid, match=r"^PROVISION_UPSTREAM_ORGANIZATION not set"):
        forge_of(Settings(**UPSTREAM, upstream_url=own))
    assert isinstance(forge_of(Settings(**UPSTREAM, upstream_url=f"{own}v1")), ForgeV1)
    other = "https://forge.example/api"
    assert isinstance(forge_of(Settings(**UPSTREAM, upstream_url=other)), ForgeV1)


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
