"""Chain and sweep on one attempt, on real connections: the database lets exactly one through."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.chain import begin, complete, fail
from provisioning.database import database
from provisioning.errors import NotInFlight
from provisioning.failures import Source, fail_terminally
from provisioning.site_state import Outcome
from tests.sites import Sites, site

pytestmark = pytest.mark.heart

RACES = [500, pytest.param(2_000, marks=pytest.mark.long)]

BOTH = "metadata #>> '{health_check,completed_at}' IS NOT NULL AND metadata ? 'terminal_failure'"


@pytest.fixture
async def sweeps_engine(database_url: str) -> AsyncIterator[AsyncEngine]:
    """The sweep's own connections, as it is another process."""
    async with database(database_url) as engine:
        yield engine


@pytest.fixture(params=RACES)
async def attempts(request: pytest.FixtureRequest, engine: AsyncEngine, sites: Sites) -> list[str]:
    """Sites in flight that owe a webhook when they fail; the attempt of each."""
    numbers = range(1, request.param + 1)
    for site_id in numbers:
        webhook = f"https://merchant.example/{site_id}"
        await sites.add(site_id, {"provision": {"webhook": webhook}})
    return [await begin(engine, site(site_id)) for site_id in numbers]


def sweep(engine: AsyncEngine, site_id: int, attempt: str) -> Coroutine[Any, Any, Outcome]:
    return fail_terminally(
        engine, site(site_id), attempt, reason="watchdog: x", source=Source.WATCHDOG, teardown=True
    )


async def finish(engine: AsyncEngine, site_id: int, attempt: str) -> Outcome:
    try:
        await complete(engine, site(site_id), attempt)
    except NotInFlight as late:
        return late.outcome
    return Outcome.FINISHED


def in_turns(number: int, *sides: Coroutine[Any, Any, Outcome]) -> list[Any]:
    """Each side gets to go first, every other time."""
    return list(sides if number % 2 else reversed(sides))


@pytest.mark.guarantee(
    fault="a chain completes while a sweep fails its attempt, 500 times",
    holds="one of them, never both",
    guard="in-flight check of the chain: without it, both win 239 of the 500 times",
)
async def test_a_completion_against_the_sweep_500_times(
    engine: AsyncEngine, sweeps_engine: AsyncEngine, sites: Sites, attempts: list[str]
) -> None:
    ends: Counter[frozenset[Outcome]] = Counter()
    for site_id, attempt in enumerate(attempts, start=1):
        sides = in_turns(
            site_id, finish(engine, site_id, attempt), sweep(sweeps_engine, site_id, attempt)
        )
        ends[frozenset(await asyncio.gather(*sides))] += 1
    completed = ends.pop(frozenset({Outcome.FINISHED}), 0)
    failed = ends.pop(frozenset({Outcome.REAPED, Outcome.ALREADY_FAILED}), 0)
    print(f"{len(attempts):,} races: {completed:,} completed, {failed:,} failed")
    assert not ends
    assert completed + failed == len(attempts)
    assert completed > 25
    assert failed > 25
    assert await sites.rows(f"SELECT id FROM sites WHERE {BOTH}") == []
    assert await sites.ledger() == await sites.failed()
    assert len(await sites.failed()) == failed
    assert len(await sites.notices()) == 2 * failed


async def test_a_failure_against_the_sweep_500_times(
    engine: AsyncEngine, sweeps_engine: AsyncEngine, sites: Sites, attempts: list[str]
) -> None:
    first: Counter[str] = Counter()
    for site_id, attempt in enumerate(attempts, start=1):
        sides = in_turns(
            site_id,
            fail(engine, site(site_id), attempt, "chain: x", teardown=True),
            sweep(sweeps_engine, site_id, attempt),
        )
        outcomes = await asyncio.gather(*sides)
        assert set(outcomes) == {Outcome.REAPED, Outcome.ALREADY_FAILED}
        first[(await sites.metadata(site_id))["terminal_failure"]["source"]] += 1
    assert first["chain"] > 25
    assert first["watchdog"] > 25
    assert await sites.ledger() == await sites.failed() == list(range(1, len(attempts) + 1))
    assert len(await sites.notices()) == 2 * len(attempts)
    assert (
        await sites.rows(
            "SELECT 1 FROM sites JOIN terminal_failures ON site_id = sites.id::text"
            " WHERE source <> metadata #>> '{terminal_failure,source}'"
        )
        == []
    )


async def waiting_for_a_row(sites: Sites) -> None:
    """Wait until somebody waits for a lock."""
    for _ in range(200):
        if await sites.rows("SELECT 1 FROM pg_locks WHERE NOT granted"):
            return
        await asyncio.sleep(0.002)
    raise AssertionError("nobody waited")


async def test_the_sweep_that_waits_for_a_completion_fails_nothing(
    engine: AsyncEngine, sweeps_engine: AsyncEngine, sites: Sites
) -> None:
    await sites.add(1, {})
    attempt = await begin(engine, site(1))
    async with sites.holding(
        'UPDATE sites SET metadata = metadata || \'{"health_check": {"completed_at": 1}}\''
    ):
        late = asyncio.create_task(sweep(sweeps_engine, 1, attempt))
        await waiting_for_a_row(sites)
    assert await late is Outcome.FINISHED
    assert await sites.failed() == await sites.ledger() == []


async def test_the_completion_that_waits_for_the_sweep_completes_nothing(
    engine: AsyncEngine, sweeps_engine: AsyncEngine, sites: Sites
) -> None:
    await sites.add(1, {})
    attempt = await begin(engine, site(1))
    async with sites.holding(
        """UPDATE sites SET metadata = metadata || '{"terminal_failure": {}}'"""
    ):
        late = asyncio.create_task(finish(engine, 1, attempt))
        await waiting_for_a_row(sites)
    assert await late is Outcome.ALREADY_FAILED
    assert "health_check" not in await sites.metadata(1)


async def test_the_completion_that_waits_for_a_newer_attempt_completes_nothing(
    engine: AsyncEngine, sites: Sites
) -> None:
    await sites.add(1, {})
    attempt = await begin(engine, site(1))
    async with sites.holding(
        'UPDATE sites SET metadata = \'{"provision": {"started_at": "newer"}}\''
    ):
        late = asyncio.create_task(finish(engine, 1, attempt))
        await waiting_for_a_row(sites)
    assert await late is Outcome.RESTARTED
    assert await sites.metadata(1) == {"provision": {"started_at": "newer"}}
