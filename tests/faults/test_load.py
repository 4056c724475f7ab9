"""More at once than on a good day: slow receivers, late bursts, two workers, an outage."""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack
from datetime import timedelta
from time import monotonic
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from deployments.processes import Service, service
from deployments.sweeps import WORK_POOL
from provisioning.failures import Source, fail_terminally
from provisioning.schema import SiteId
from provisioning.site_state import Outcome
from provisioning.sweep.refusals import LISTED
from provisioning.sweep.snapshot import look
from tests.flow.conftest import Sweep
from tests.flow.traces import message
from tests.outbox.receivers import Receiver, Request, receiving
from tests.production import Production
from tests.sites import YOUNG, Sites, stamp

pytestmark = [pytest.mark.e2e, pytest.mark.long]

SLOW = 4.0
"""Seconds that each receiver takes to answer."""


@pytest.fixture
async def slow_merchants(merchant: Receiver) -> AsyncIterator[list[Receiver]]:
    """Twenty-five receivers, each slow."""

    async def slowly(_request: Request, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(SLOW)
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")

    async with AsyncExitStack() as running:
        merchants = [await running.enter_async_context(receiving()) for _ in range(25)]
        for slow in merchants:
            slow.default = slowly
        yield merchants


@pytest.mark.guarantee(
    fault="25 sites with 25 slow receivers",
    holds="all are told, in two turns",
)
async def test_twenty_five_slow_receivers_hold_a_sweep_up_for_two_turns_and_no_longer(
    sweep: Sweep, sites: Sites, slow_merchants: list[Receiver]
) -> None:
    for site_id, slow in enumerate(slow_merchants):
        await sites.add_started(site_id, provision={"webhook": slow.url()})
    started = monotonic()
    state = await sweep()
    assert monotonic() - started < 2 * SLOW + 10
    assert state.name == "Reaped"
    assert "25 notices delivered" in message(state)
    assert [len(slow.requests) for slow in slow_merchants] == [1] * 25


LATE = 100
THROUGH_PREFECT = 25


@pytest.mark.guarantee(
    fault="a hundred late sweeps, back to back",
    holds="each site is failed and each merchant told once",
)
async def test_a_hundred_late_sweeps_one_after_the_other_reap_what_one_would(
    sweep: Sweep, sites: Sites, engine: AsyncEngine, merchant: Receiver
) -> None:
    """A quarter of them as flow runs, the others as the look and the marks of one."""
    for site_id in range(20):
        await sites.add_started(site_id, provision={"webhook": merchant.url()})
    await sites.add_started(20, stamp(YOUNG))
    names = [(await sweep()).name for _ in range(THROUGH_PREFECT)]
    assert names == ["Reaped"] + ["Clean"] * (THROUGH_PREFECT - 1)
    for number in range(THROUGH_PREFECT, LATE):
        if number % 15 == 0:
            await sites.add_started(number)
        seen = await look(engine, timedelta(minutes=30), 100, writes=True)
        assert [sites.name(site.site_id) for site in seen.stuck] == (
            [number] if number % 15 == 0 else []
        )
        for site in seen.stuck:
            assert await fail(engine, site.site_id, site.attempt) is Outcome.REAPED
    assert await sites.ledger() == [*range(20), 30, 45, 60, 75, 90]
    assert sorted(request.site_id for request in merchant.requests) == list(range(20))


async def fail(engine: AsyncEngine, site_id: SiteId, attempt: str) -> Outcome:
    return await fail_terminally(
        engine, site_id, attempt, reason="late", source=Source.WATCHDOG, flow_run_id=uuid4()
    )


@pytest.fixture
def two_workers(production: Production) -> Iterator[list[Service]]:
    """Two workers of one pool, as on two machines, in the place of the one: a run each."""
    production.kill_worker()
    command = ("worker", "start", "--pool", WORK_POOL, "--type", "process", "--limit", "1")
    with ExitStack() as running:
        yield [
            running.enter_context(
                service(
                    name,
                    (sys.executable, "-m", "prefect", *command),
                    log=production.folder / f"{name} worker.log",
                    environment=production.environment,
                )
            )
            for name in ("first", "second")
        ]
    production.start_worker()


@pytest.mark.timeout(240)
@pytest.mark.guarantee(
    fault="two workers with a sweep each at the same moment",
    holds="each site is failed once, and both runs end green",
)
async def test_two_workers_with_sweeps_at_the_same_moment_fail_each_site_once(
    production: Production, platform: Sites, two_workers: list[Service]
) -> None:
    """Each mark takes a while, so that the second worker comes while the first is at it."""
    await platform.run(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_sleep(0.3); RETURN NEW; END $$"
    )
    await platform.run("CREATE TRIGGER slow BEFORE UPDATE ON sites EXECUTE FUNCTION slow()")
    try:
        await platform.add_many(20)
        runs = [production.custom_run() for _ in range(2)]
        ended = [await production.ended(run, seconds=150) for run in runs]
    finally:
        await platform.run("DROP FUNCTION slow CASCADE")
    assert {run["state_name"] for run in ended} <= {"Reaped", "Clean"}
    assert await platform.ledger() == await platform.failed() == list(range(1, 21))
    swept = [[run for run in runs if was_run_by(worker, run)] for worker in two_workers]
    assert sorted(len(each) for each in swept) == [1, 1], "one worker swept alone"


def was_run_by(worker: Service, run_id: str) -> bool:
    """Whether this worker won the run: both may ask for it, and the server tells one to stop."""
    log = worker.log.read_text()
    return f"submitting flow run '{run_id}'" in log and (
        f"Aborted submission of flow run '{run_id}'" not in log
    )


MANY = 100_000


@pytest.fixture
def wrecked_platform(database_url: str) -> Iterator[Any]:
    """A hundred thousand sites in flight, all stuck."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            """
            INSERT INTO sites
            SELECT i, 'shop-' || i || '.example', jsonb_build_object('provision',
                jsonb_build_object('step', 'dns', 'started_at', '2025-01-15T14:00:00Z'))
              FROM generate_series(1, %s) AS i
            """,
            [MANY],
        )
        connection.execute("ANALYZE sites")
        yield


@pytest.mark.guarantee(
    fault="100,000 stuck sites",
    holds="refused within seconds, with the exact number, and bounded reads",
)
async def test_a_hundred_thousand_stuck_sites_are_refused_in_seconds(
    sweep: Sweep, sites: Sites, engine: AsyncEngine, wrecked_platform: None
) -> None:
    """The rows that a sweep reads are bounded; the number that it tells is exact."""
    started = monotonic()
    seen = await look(engine, timedelta(minutes=30), LISTED, writes=True)
    looked = monotonic() - started
    assert (len(seen.stuck), seen.stuck_total, seen.in_flight) == (LISTED, MANY, MANY)
    started = monotonic()
    state = await sweep()
    swept = monotonic() - started
    print(f"looked in {looked:.2f} s, refused in {swept:.2f} s")
    assert state.name == "Refused"
    assert "100,000 stuck sites, over the cap of 25 a run: nothing was changed" in message(state)
    assert await sites.failed() == await sites.ledger() == []
    listed = "SELECT jsonb_array_length(candidates) FROM sweep_refusals"
    assert [row[0] for row in await sites.rows(listed)] == [LISTED]
    assert looked < 10
    assert swept < 20
