"""A site at the upstream belongs to the row that had it made, whatever its domain is."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from pydantic import SecretStr
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.chain import age, begin, complete, fail, polling
from provisioning.chain.api import Api
from provisioning.chain.forge import Forge, ForgeV1
from provisioning.chain.polling import Time
from provisioning.chain.request import request
from provisioning.chain.upstream import Claim, Standing, Upstream, UpstreamSite
from provisioning.errors import GaveUp, UpstreamRefused
from provisioning.failures import Source, fail_terminally
from tests.chain.conftest import BOTH_VERSIONS
from tests.chain.forge_server import LOST, ORGANIZATION, SERVER, TOKEN, ForgeV1Server, Spoilt
from tests.chain.stub_server import StubServer
from tests.sites import Sites

ONE, TWO = 3_000_000_001, 3_000_000_002
DOMAIN = "shop.example"
TAKEN = "already has site 100 with this domain, and nothing shows that it was made for this row"


class Chain:
    """Attempts of a chain, as far as the request."""

    def __init__(self, engine: AsyncEngine, forge: StubServer) -> None:
        self.engine, self.told = engine, list[str]()
        self.upstream: Upstream = (
            ForgeV1(Api(f"{forge.url}/api/v1", SecretStr(TOKEN)), SERVER)
            if isinstance(forge, ForgeV1Server)
            else Forge(Api(f"{forge.url}/api", SecretStr(TOKEN)), ORGANIZATION, SERVER)
        )

    async def begin(self, site_id: int) -> str:
        return await begin(self.engine, site_id)

    async def request(self, site_id: int, attempt: str, seconds: float = 5) -> str:
        return await request(
            self.engine,
            self.upstream,
            site_id,
            attempt,
            within=Time(
                timedelta(seconds=seconds) + await age(self.engine, site_id, attempt),
                lambda: age(self.engine, site_id, attempt),
            ),
            tell=self.told.append,
        )

    async def attempt(self, site_id: int) -> str:
        """A new attempt, and the upstream's id of its site."""
        return await self.request(site_id, await self.begin(site_id))

    async def fail(self, site_id: int, *, teardown: bool) -> None:
        attempt = await self.attempt_of(site_id)
        await fail(self.engine, site_id, attempt, "chain: x", teardown=teardown)

    async def until_told(self, what: str) -> None:
        for _ in range(500):
            if any(what in told for told in self.told):
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"{what!r} was never told; what was: {self.told}")

    async def attempt_of(self, site_id: int) -> str:
        stamp: str = (await Sites(self.engine).metadata(site_id))["provision"]["started_at"]
        return stamp


@pytest.fixture
def chain(engine: AsyncEngine, forge: StubServer, monkeypatch: pytest.MonkeyPatch) -> Chain:
    monkeypatch.setattr(polling, "PAUSES", (0.05,))
    return Chain(engine, forge)


async def torn_down(sites: Sites) -> list[tuple[Any, bool]]:
    """What each teardown names: the upstream's id, and whether there is a marker."""
    found = await sites.rows("SELECT body FROM notices WHERE kind = 'teardown' ORDER BY id")
    data = [json.loads(bytes(body))["data"] for (body,) in found]
    return [(it["upstream_id"], it["upstream_marker"] is not None) for it in data]


SPELLINGS = [
    (DOMAIN, DOMAIN),
    (DOMAIN, "SHOP.Example"),
    ("Shop.example.", DOMAIN),
    ("bücher.example", "xn--bcher-kva.example"),
    ("xn--i-7iq.ws", "i❤.ws"),
    (DOMAIN, "sh\u00adop.example"),
]


@BOTH_VERSIONS
@pytest.mark.parametrize(("first", "second"), SPELLINGS)
@pytest.mark.guarantee(
    fault="two rows with one domain, in any spelling of it",
    holds="the second attempt fails and says so, and its teardown names nothing",
    guard="Claim.covers: with a domain for a proof, the second row took over site 100",
)
async def test_a_domain_that_another_row_has_is_not_taken_over(
    chain: Chain, sites: Sites, forge: StubServer, first: str, second: str
) -> None:
    await sites.add(ONE, {}, domain=first)
    await sites.add(TWO, {}, domain=second)
    assert await chain.attempt(ONE) == "100"
    with pytest.raises(UpstreamRefused, match=TAKEN):
        await chain.attempt(TWO)
    await chain.fail(TWO, teardown=True)
    assert (await sites.metadata(TWO))["provision"].get("upstream_id") is None
    assert [upstream_id for upstream_id, _ in await torn_down(sites)] == [None]
    assert len(forge.sites) == 1


@BOTH_VERSIONS
async def test_of_two_rows_at_once_one_gets_the_domain(
    chain: Chain, sites: Sites, forge: StubServer
) -> None:
    ends: Counter[str] = Counter()
    for number in range(30):
        rows = [ONE + 2 * number, TWO + 2 * number]
        for row in rows:
            await sites.add(row, {}, domain=f"shop-{number}.example")
        order = rows if number % 2 else reversed(rows)
        got = await asyncio.gather(*map(chain.attempt, order), return_exceptions=True)
        ends[" and ".join(sorted(type(it).__name__ for it in got))] += 1
    assert ends == {"UpstreamRefused and str": 30}
    assert len(forge.sites) == 30


@pytest.mark.guarantee(
    fault="a create whose answer was lost",
    holds="the attempt that asked recognises its site, and no other attempt does",
    guard="the marker: without its tag the attempt that asked is refused as well",
)
async def test_a_lost_answer_is_recognised_by_the_attempt_that_asked_and_by_no_other(
    chain: Chain, sites: Sites, forge: StubServer
) -> None:
    await sites.add(ONE, {}, domain=DOMAIN)
    await sites.add(TWO, {}, domain=DOMAIN)
    forge.spoil("POST", LOST)
    assert await chain.attempt(ONE) == "100"
    with pytest.raises(UpstreamRefused, match=TAKEN):
        await chain.attempt(TWO)
    assert len(forge.sites) == forge.creates() == 1


@pytest.mark.parametrize("forge", [ForgeV1Server], indirect=True)
async def test_an_api_without_marks_gives_no_proof_so_nothing_is_taken_over(
    chain: Chain, sites: Sites, forge: StubServer
) -> None:
    await sites.add(ONE, {}, domain=DOMAIN)
    forge.spoil("POST", LOST)
    with pytest.raises(UpstreamRefused, match=TAKEN):
        await chain.attempt(ONE)
    assert forge.creates() == 1


@BOTH_VERSIONS
async def test_a_new_attempt_goes_on_with_what_an_earlier_one_of_the_row_had_made(
    chain: Chain, sites: Sites, forge: StubServer
) -> None:
    await sites.add(ONE, {}, domain=DOMAIN)
    await chain.attempt(ONE)
    await chain.fail(ONE, teardown=False)
    assert await chain.attempt(ONE) == "100"
    assert forge.creates() == 1
    assert "Takes over site 100" in chain.told[-1]


async def test_a_new_attempt_recognises_what_an_earlier_one_asked_for_and_never_heard_of(
    chain: Chain, sites: Sites, forge: StubServer
) -> None:
    await sites.add(ONE, {}, domain=DOMAIN)
    forge.spoil("POST", LOST)
    forge.spoil("GET", Spoilt(200, body='{"data": []}'), *[Spoilt(503)] * 60)
    with pytest.raises(GaveUp):
        await chain.request(ONE, await chain.begin(ONE), seconds=0.5)
    forge.spoilt.clear()
    await chain.fail(ONE, teardown=False)
    assert await chain.attempt(ONE) == "100"
    assert len(forge.sites) == forge.creates() == 1


@pytest.mark.guarantee(
    fault="a new attempt while the teardown of the last one is owed or under way",
    holds="it takes nothing over, and waits while the upstream removes it",
    guard="_TORN_DOWN: without it the new attempt takes over the site that is to be removed",
)
@BOTH_VERSIONS
async def test_what_a_teardown_was_asked_for_is_not_taken_over(
    chain: Chain, sites: Sites, forge: StubServer
) -> None:
    await sites.add(ONE, {}, domain=DOMAIN)
    await chain.attempt(ONE)
    await chain.fail(ONE, teardown=True)
    assert await torn_down(sites) == [("100", True)]
    with pytest.raises(UpstreamRefused, match=TAKEN):
        await chain.attempt(ONE)
    await chain.fail(ONE, teardown=True)

    forge.sites[0]["status"] = "removing"
    waiting = asyncio.create_task(chain.attempt(ONE))
    await chain.until_told("still removing site 100")
    del forge.sites[0]
    forge.sites.append({"id": 7, "name": "another.example"})
    assert await waiting == "101"


async def test_what_is_gone_is_made_anew(chain: Chain, sites: Sites, forge: StubServer) -> None:
    await sites.add(ONE, {}, domain=DOMAIN)
    await chain.attempt(ONE)
    await chain.fail(ONE, teardown=False)
    forge.sites[:] = [{"id": 7, "name": "another.example"}]
    assert await chain.attempt(ONE) == "101"
    await chain.fail(ONE, teardown=True)
    assert await torn_down(sites) == [("101", True)]


@BOTH_VERSIONS
async def test_a_row_made_again_under_an_old_id_takes_nothing_over(
    chain: Chain, sites: Sites
) -> None:
    await sites.add(ONE, {}, domain=DOMAIN)
    await chain.attempt(ONE)
    await sites.run("DELETE FROM sites")
    await sites.add(ONE, {}, domain=DOMAIN)
    with pytest.raises(UpstreamRefused, match=TAKEN):
        await chain.attempt(ONE)


COPY = "INSERT INTO sites SELECT :copy, domain, metadata FROM sites WHERE id = :of"


@pytest.mark.guarantee(
    fault="a row that was copied with its metadata",
    holds="it takes nothing over, and its teardown names nothing",
    guard="OF_THIS_ROW: without it the copy takes over site 100, and its teardown names 100",
)
@BOTH_VERSIONS
@pytest.mark.parametrize("ended", [True, False])
async def test_a_copied_row_takes_nothing_over_and_tears_nothing_down(
    chain: Chain, sites: Sites, engine: AsyncEngine, ended: bool
) -> None:
    await sites.add(ONE, {}, domain=DOMAIN)
    await chain.attempt(ONE)
    attempt = await chain.attempt_of(ONE)
    if ended:
        await complete(engine, ONE, attempt)
    await sites.run(COPY, copy=TWO, of=ONE)
    if ended:
        with pytest.raises(UpstreamRefused, match=TAKEN):
            await chain.attempt(TWO)
    await fail_terminally(
        engine,
        TWO,
        await chain.attempt_of(TWO),
        reason="watchdog: x",
        source=Source.WATCHDOG,
        teardown=True,
    )
    assert [upstream_id for upstream_id, _ in await torn_down(sites)] == [None]


class ByMarker:
    """An upstream that finds a site by its marker as well, whatever its domain is."""

    def __init__(self) -> None:
        self.made: list[tuple[str, str]] = []

    async def find(self, domain: str, marker: str) -> Sequence[UpstreamSite]:
        return [self.site(n) for n, names in enumerate(self.made) if {domain, marker} & {*names}]

    async def create(self, domain: str, marker: str) -> UpstreamSite:
        self.made.append((domain, marker))
        return self.site(len(self.made) - 1)

    async def read(self, upstream_id: str) -> UpstreamSite:
        return self.site(int(upstream_id))

    def site(self, number: int) -> UpstreamSite:
        marks = frozenset([self.made[number][1]])
        return UpstreamSite(str(number), "installed", Standing.READY, marks)


@pytest.mark.guarantee(
    fault="a row that has got another domain",
    holds="the site of the old one is not taken over, however the upstream finds it",
    guard="the comparison of domains: without it the row of new.example takes over the old site",
)
async def test_the_site_of_an_old_domain_is_not_taken_over_for_a_new_one(
    chain: Chain, sites: Sites
) -> None:
    chain.upstream = upstream = ByMarker()
    await sites.add(ONE, {}, domain="old.example")
    await chain.attempt(ONE)
    await chain.fail(ONE, teardown=False)
    await sites.run("UPDATE sites SET domain = 'new.example'")
    assert await chain.attempt(ONE) == "1"
    assert [domain for domain, _ in upstream.made] == ["old.example", "new.example"]


@pytest.mark.guarantee(
    fault="a live site that is provisioned again, and fails",
    holds="its teardown names nothing that an earlier attempt had made",
    guard="_OF_THIS_ATTEMPT: without it the teardown names the live site",
)
@BOTH_VERSIONS
async def test_a_live_site_that_is_provisioned_again_is_not_torn_down(
    chain: Chain, sites: Sites, engine: AsyncEngine
) -> None:
    await sites.add(ONE, {}, domain=DOMAIN)
    await chain.attempt(ONE)
    await complete(engine, ONE, await chain.attempt_of(ONE))
    assert await chain.attempt(ONE) == "100", "goes on with its own"
    await chain.fail(ONE, teardown=True)
    assert await torn_down(sites) == [(None, False)]


async def test_an_id_that_nobody_claimed_proves_nothing(
    chain: Chain, sites: Sites, forge: StubServer
) -> None:
    forge.sites.append({"id": 100, "name": DOMAIN})
    await sites.add(ONE, {"provision": {"upstream_id": "100"}}, domain=DOMAIN)
    with pytest.raises(UpstreamRefused, match=TAKEN):
        await chain.attempt(ONE)
    await chain.fail(ONE, teardown=True)
    assert [upstream_id for upstream_id, _ in await torn_down(sites)] == [None]


async def test_a_site_of_anothers_that_is_being_removed_is_waited_for(
    chain: Chain, sites: Sites, forge: StubServer
) -> None:
    forge.sites.append({"id": 55, "name": DOMAIN, "status": "uninstalling"})
    await sites.add(ONE, {}, domain=DOMAIN)
    with pytest.raises(GaveUp, match="still removing site 55, which has this domain"):
        await chain.request(ONE, await chain.begin(ONE), seconds=0.3)
    assert forge.creates() == 0


async def test_a_teardown_names_what_its_attempt_had_made_and_a_webhook_does_not(
    chain: Chain, sites: Sites
) -> None:
    await sites.add(ONE, {"provision": {"webhook": "https://merchant.example/hook"}}, domain=DOMAIN)
    await chain.attempt(ONE)
    attempt = await chain.attempt_of(ONE)
    await chain.fail(ONE, teardown=True)
    bodies = {
        kind: json.loads(bytes(body))["data"]
        for kind, body in await sites.rows("SELECT kind, body FROM notices")
    }
    assert bodies["teardown"]["upstream_id"] == "100"
    assert bodies["teardown"]["upstream_marker"] == Claim(str(ONE), attempt, DOMAIN).marker
    assert not bodies["webhook"].keys() & {"upstream_id", "upstream_marker"}


async def test_a_marker_names_one_attempt_of_one_row_for_one_domain() -> None:
    claims = [
        Claim("1", "2025-01-15T14:00:00Z", DOMAIN),
        Claim("12", "025-01-15T14:00:00Z", DOMAIN),
        Claim("1", "2025-01-15T14:00:01Z", DOMAIN),
        Claim("1", "2025-01-15T14:00:00Z", "other.example"),
        Claim('1", "2', "025-01-15T14:00:00Z", DOMAIN),
    ]
    assert len({claim.marker for claim in claims}) == len(claims)
    assert all(re.fullmatch("provision-[0-9a-f]{24}", claim.marker) for claim in claims)
