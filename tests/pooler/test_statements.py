"""Each statement through a pooler: its bounds and formats, its transaction, and what it leaves."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from time import monotonic

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from deployments.postgres import LocalPostgres
from provisioning.database import autocommit, database, snapshot
from provisioning.errors import DatabaseError
from provisioning.failures import Source, fail_terminally
from provisioning.session import SESSION
from provisioning.site_state import Outcome
from provisioning.sweep.snapshot import look
from tests.commands import ROOT, migrate
from tests.pooler.bouncer import Bouncer, bouncer, left_on_the_servers
from tests.sites import OLD, Sites, stamp

SITE = 3_000_000_001
THRESHOLD = timedelta(minutes=30)

HOSTILE = {
    "datestyle": "SQL, DMY",
    "intervalstyle": "sql_standard",
    "timezone": "Asia/Kathmandu",
    "client_encoding": "LATIN1",
    "bytea_output": "escape",
    "extra_float_digits": "-15",
    "standard_conforming_strings": "off",
    "default_transaction_isolation": "serializable",
    "lock_timeout": "0",
    "statement_timeout": "0",
}


@pytest.fixture
async def pooled(pooler: Bouncer, database_url: str) -> AsyncIterator[AsyncEngine]:
    """The program's engine, through the pooler."""
    async with database(pooler.through(database_url), pooled=True) as engine:
        yield engine


async def make_hostile(sites: Sites) -> None:
    name = (await sites.rows("SELECT current_database()"))[0][0]
    for setting, value in HOSTILE.items():
        await sites.run(f"ALTER DATABASE {name} SET {setting} = '{value}'")


async def fail(engine: AsyncEngine, attempt: str) -> Outcome:
    return await fail_terminally(
        engine,
        SITE,
        attempt,
        reason="watchdog: it's \\ late: 例え %s :x",
        source=Source.WATCHDOG,
        started_before=datetime.now(UTC) - THRESHOLD,
        teardown=True,
    )


@pytest.mark.guarantee(
    fault="hostile settings of the database, through a pooler (G10, G11)",
    holds="bounds and formats are in force for each statement, and none is left behind",
    guard=(
        "without the cursor's prefix, `lock_timeout` is 0 and DateStyle is SQL; with settings of "
        "the session and not of its transaction, another client finds 30s and 500ms"
    ),
)
async def test_bounds_and_formats_are_in_force_and_none_is_left(
    pooled: AsyncEngine, sites: Sites, pooler: Bouncer, database_url: str
) -> None:
    await make_hostile(sites)
    names = ", ".join(f"current_setting('{name}')" for name in SESSION)
    isolation = "current_setting('transaction_isolation')"
    for connected, level in ((autocommit, "read committed"), (snapshot, "repeatable read")):
        async with connected(pooled) as connection:
            for _ in range(2):
                row = (await connection.execute(text(f"SELECT {isolation}, {names}"))).one()
                assert row == (level, *SESSION.values())
    async with autocommit(pooled) as connection:
        read = text(
            "SELECT timestamptz '2026-03-04 05:06:07+00' AS at, interval '-1 day 2:00' AS took,"
            " decode('0001ff', 'hex') AS body, 0.1::float8 AS share, CAST(:word AS text) AS word"
        )
        row = (await connection.execute(read, {"word": "例え \\ 'x'"})).one()
    assert row.at == datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
    assert row.took == timedelta(days=-1, hours=2)
    assert (bytes(row.body), row.share, row.word) == (b"\x00\x01\xff", 0.1, "例え \\ 'x'")
    with psycopg.connect(pooler.through(database_url), prepare_threshold=None) as another:
        kept = another.execute(f"SELECT {names}").fetchone()
        assert kept
        assert not {"500ms", "30s"} & set(kept)


async def test_a_sweep_reads_and_writes_as_with_the_defaults(
    pooled: AsyncEngine, sites: Sites, postgres: LocalPostgres
) -> None:
    await make_hostile(sites)
    webhook = "https://例え.jp/\\hook"
    attempt = await sites.add_started(
        SITE, stamp(OLD), provision={"webhook": webhook, "step": "d\\n's 例え"}
    )
    seen = await look(pooled, THRESHOLD, 100, writes=True)
    assert [(site.attempt, site.step) for site in seen.stuck] == [(attempt, "d\\n's 例え")]
    assert await fail(pooled, attempt) is Outcome.REAPED
    assert await fail(pooled, attempt) is Outcome.ALREADY_FAILED
    mark = (await sites.metadata(SITE))["terminal_failure"]
    assert mark["reason"] == "watchdog: it's \\ late: 例え %s :x"
    name = (await sites.rows("SELECT current_database()"))[0][0]
    assert left_on_the_servers(postgres, name) == []


@pytest.mark.guarantee(
    fault="a row that is held for long, through a pooler (G10)",
    holds="busy after half a second",
    guard="without the cursor's prefix, it waits for as long as the row is held",
)
async def test_a_held_row_is_busy_after_half_a_second(
    pooled: AsyncEngine, sites: Sites, database_url: str
) -> None:
    attempt = await sites.add_started(SITE)
    await fail(pooled, "another")
    with psycopg.connect(database_url) as holder:
        holder.execute("SELECT 1 FROM sites FOR UPDATE")
        began = monotonic()
        outcome = await asyncio.wait_for(fail(pooled, attempt), 20)
        took = monotonic() - began
    assert outcome is Outcome.BUSY
    assert 0.4 < took < 3


KILLED = """
import asyncio, sys
from sqlalchemy import text
from provisioning.database import autocommit, database

async def main():
    async with database(sys.argv[1], pooled=True) as engine, autocommit(engine) as connection:
        await connection.execute(text(
            "UPDATE sites SET domain = 'changed' RETURNING pg_sleep(1.5)"))

asyncio.run(main())
"""


@pytest.mark.guarantee(
    fault="a worker that is killed or stands still in the middle of a write, through a pooler",
    holds="the server ends the transaction by itself: no row stays locked",
    guard="with a COMMIT of the worker's, the row of the one that stands still stays locked",
)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
async def test_a_worker_that_is_gone_owes_no_commit(
    pooled: AsyncEngine,
    sites: Sites,
    pooler: Bouncer,
    database_url: str,
    postgres: LocalPostgres,
    how: signal.Signals,
) -> None:
    attempt = await sites.add_started(SITE)
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-c", KILLED, pooler.through(database_url), cwd=ROOT
    )
    active = "SELECT 1 FROM pg_stat_activity WHERE query LIKE '%pg_sleep(1.5)%' AND pid <> :me"
    me = (await sites.rows("SELECT pg_backend_pid()"))[0][0]
    deadline = monotonic() + 60
    while not await sites.rows(active + " AND state = 'active'", me=me):
        assert monotonic() < deadline
        await asyncio.sleep(0.05)
    assert await fail(pooled, attempt) is Outcome.BUSY
    worker.send_signal(how)
    try:
        deadline = monotonic() + 10
        while (outcome := await fail(pooled, attempt)) is Outcome.BUSY:
            assert monotonic() < deadline, "the row stays locked"
        assert outcome is Outcome.REAPED
        name = (await sites.rows("SELECT current_database()"))[0][0]
        assert left_on_the_servers(postgres, name) == []
    finally:
        with suppress(ProcessLookupError):
            worker.kill()
        await worker.wait()


@pytest.mark.guarantee(
    fault="a pooler that was not announced (G10)",
    holds="the message names PROVISION_DATABASE_POOLED, and nothing is tried again",
    guard="without its row in the table of failures, the connection just failed",
)
async def test_a_pooler_that_was_not_announced_is_said(pooler: Bouncer, database_url: str) -> None:
    async with database(pooler.through(database_url)) as engine:
        with pytest.raises(DatabaseError, match="PROVISION_DATABASE_POOLED=true") as caught:
            await look(engine, THRESHOLD, 1, writes=True)
    assert not caught.value.transient


async def test_a_pooler_that_drops_the_options_in_silence_is_said(
    postgres: LocalPostgres, database_url: str
) -> None:
    ignoring = "ignore_startup_parameters = options,extra_float_digits"
    with bouncer(postgres, "transaction", ignoring) as pooler:
        async with database(pooler.through(database_url)) as engine:
            with pytest.raises(Exception, match="PROVISION_DATABASE_POOLED=true"):
                await look(engine, THRESHOLD, 1, writes=True)
        with pytest.raises(AssertionError, match="PROVISION_DATABASE_URL at the server itself"):
            migrate(pooler.through(database_url))


@pytest.mark.guarantee(
    fault="migrations through a pooler (G10)",
    holds="refused, with the request for the server's own address",
    guard="without the question, a pooler that is announced is asked to migrate",
)
def test_migrations_ask_for_the_servers_own_address(
    pooler: Bouncer, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = pooler.through(database_url)
    with pytest.raises(AssertionError, match="point PROVISION_DATABASE_URL at the server itself"):
        migrate(url)
    monkeypatch.setenv("PROVISION_DATABASE_POOLED", "true")
    with pytest.raises(AssertionError, match="the server's own address"):
        migrate(url)
