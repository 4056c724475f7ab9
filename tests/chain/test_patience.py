"""What passes by itself fails no attempt, however long it takes within the attempt's own time."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from prefect.client.schemas.objects import State

from deployments.postgres import LocalPostgres
from flows.provision_site import SWEEPS_AFTER, provision_site
from flows.reap_stuck_provisions import reap_stuck_provisions
from tests.chain.conftest import Provision
from tests.chain.forge_server import Spoilt
from tests.chain.stub_server import StubServer
from tests.sites import Sites

SITE = 3_000_000_001
AFTER = {"begin": None, "request": "GET sites", "install": "GET 100", "health": "GET shop.example"}
"""What was asked last when the trouble begins, by the step that meets it."""


async def until_then(forge: StubServer, step: str) -> None:
    asked = AFTER[step]
    if asked:
        await forge.until_asked(asked)


def slow(forge: StubServer) -> None:
    """Each step takes a few questions, so that trouble meets all of them."""
    forge.spoil("GET", *[Spoilt(503)] * 3)
    forge.first_statuses.extend(["installing"] * 3)
    forge.health.extend([502] * 3)


@contextmanager
def away(postgres: LocalPostgres, database_url: str) -> Iterator[None]:
    """The database takes no connection, and has cut those that there were."""
    with psycopg.connect(database_url) as connection:
        name = connection.info.dbname
    with psycopg.connect(postgres.url(), autocommit=True) as administrator:
        administrator.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        administrator.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name]
        )
        try:
            yield
        finally:
            administrator.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")


async def is_live(run: "asyncio.Task[State[Any]]", forge: StubServer) -> None:
    state = await run
    assert state.name == "Live", state.message
    assert forge.creates() == len(forge.sites) == 1


@pytest.mark.parametrize(
    ("step", "seconds"),
    [pytest.param("request", 25, marks=pytest.mark.long), ("begin", 3), ("health", 3)],
)
@pytest.mark.guarantee(
    fault="a row that somebody holds for 25 s while its chain runs",
    holds="the chain waits within its attempt's time, and goes on",
    guard="a held row taken for an end: each of the three attempts fails",
)
async def test_a_row_that_is_held(
    provision: Provision,
    sites: Sites,
    database_url: str,
    forge: StubServer,
    step: str,
    seconds: int,
) -> None:
    await sites.add(SITE, {}, domain="shop.example")
    slow(forge)
    with psycopg.connect(database_url) as holder:
        if step == "begin":
            holder.execute("SELECT 1 FROM sites FOR UPDATE")
        run = asyncio.create_task(provision(SITE))
        await until_then(forge, step)
        holder.execute("SELECT 1 FROM sites FOR UPDATE")
        await asyncio.sleep(seconds)
    await is_live(run, forge)


@pytest.mark.parametrize(
    ("step", "seconds"),
    [pytest.param("install", 30, marks=pytest.mark.long), ("request", 3), ("health", 3)],
)
@pytest.mark.guarantee(
    fault="a database that is away for 30 s while a chain runs",
    holds="the chain waits within its attempt's time, asks nothing meanwhile, and goes on",
    guard=(
        "a lost connection taken for an end: each of the three attempts fails; a wait that asks "
        "although the look at its attempt failed: the upstream is asked meanwhile"
    ),
)
async def test_a_database_that_is_away(
    provision: Provision,
    sites: Sites,
    postgres: LocalPostgres,
    database_url: str,
    forge: StubServer,
    step: str,
    seconds: int,
) -> None:
    await sites.add(SITE, {}, domain="shop.example")
    slow(forge)
    if step == "install":
        forge.status = "installing"
    run = asyncio.create_task(provision(SITE))
    await until_then(forge, step)
    await sites.engine.dispose()
    with away(postgres, database_url):
        await asyncio.sleep(1)
        asked = len(forge.asked)
        await asyncio.sleep(seconds - 1)
        assert len(forge.asked) == asked, "nothing is asked while nobody knows how it stands"
    forge.status = "installed"
    await is_live(run, forge)


@pytest.mark.parametrize("status", [408, 500, 502, 520, 524])
@pytest.mark.guarantee(
    fault="an upstream that answers 408, 500, 502 or 52x, to each method five times",
    holds="the chain asks again, and makes one site",
    guard="with 503 alone for what passes, four of the five attempts fail",
)
async def test_an_upstream_in_trouble(
    provision: Provision, sites: Sites, forge: StubServer, status: int
) -> None:
    await sites.add(SITE, {}, domain="shop.example")
    for method in ("GET", "POST"):
        forge.spoil(method, *[Spoilt(status)] * 5)
    run = asyncio.create_task(provision(SITE))
    state = await run
    assert state.name == "Live", state.message
    assert len(forge.sites) == 1


@pytest.mark.guarantee(
    fault="a Retry-After beyond the attempt's deadline",
    holds="the attempt fails at once, and is told as that",
    guard="without the comparison the chain waits for two hours",
)
async def test_a_wish_beyond_the_attempts_time_is_told_as_that(
    provision: Provision, sites: Sites, forge: StubServer
) -> None:
    await sites.add(SITE, {}, domain="shop.example")
    forge.spoil("GET", Spoilt(503, {"retry-after": "7200"}))
    state = await provision(SITE)
    assert state.message
    assert "asks to be left alone for 2 h, which is longer than the 19 min" in state.message
    assert "gave up" not in state.message


@pytest.mark.parametrize("domain", ["", "shop\n.example", "shop\u202e.example", "localhost"])
async def test_a_domain_that_is_no_host_name_fails_the_attempt_in_one_sentence(
    provision: Provision, sites: Sites, forge: StubServer, domain: str
) -> None:
    await sites.run("INSERT INTO sites VALUES (:id, :domain, '{}')", id=SITE, domain=domain)
    state = await provision(SITE)
    assert state.name == "Failed"
    assert state.message
    assert state.message.startswith("chain: the domain of the site is no host name: ")
    assert state.message.isprintable()
    assert forge.asked == []


async def test_a_limit_beyond_the_sweeps_threshold_is_told_and_the_sweep_leaves_it_alone(
    provision: Provision, sites: Sites, forge: StubServer, caplog: pytest.LogCaptureFixture
) -> None:
    await sites.add(SITE, {}, domain="shop.example")
    caplog.set_level(logging.WARNING)
    assert (await provision(SITE, give_up_after_minutes=90)).name == "Live"
    assert "This attempt may take 1 h 30 min" in caplog.text
    caplog.clear()
    assert (await provision(SITE, give_up_after_minutes=20)).name == "Live"
    assert "may take" not in caplog.text


def test_the_threshold_that_the_chain_knows_is_the_sweeps_default() -> None:
    parameters = reap_stuck_provisions.parameters.properties
    assert parameters["stuck_after_minutes"]["default"] * 60 == SWEEPS_AFTER.total_seconds()
    assert provision_site.parameters.properties["give_up_after_minutes"]["default"] == 20


async def test_six_chains_share_a_rate_limit(
    provision: Provision, sites: Sites, forge: StubServer
) -> None:
    forge.at_a_time, forge.window = 6, 3.0
    rows = [SITE + n for n in range(6)]
    for row in rows:
        await sites.add(row, {})
    states = await asyncio.gather(*map(provision, rows))
    assert [state.name for state in states] == ["Live"] * 6, [state.message for state in states]
    assert len(forge.sites) == 6
    assert forge.refused > 0
