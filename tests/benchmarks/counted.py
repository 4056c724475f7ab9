"""7. What a sweep asks of the database: its statements, and the blocks that they touch, counted.

Times wander; these counts hardly do. So the figures of docs/benchmarks.md bound them in CI.
"""

import asyncio
import re
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from uuid import UUID, uuid4

import psycopg
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from deployments.postgres import LocalPostgres, local_postgres
from provisioning.database import database
from provisioning.errors import CapExceeded
from provisioning.failures import Source, fail_terminally
from provisioning.outbox.claims import prune
from provisioning.outbox.delivery import Delivery, deliver
from provisioning.outbox.dispatcher import sendable, side_by_side
from provisioning.outbox.store import Notice
from provisioning.settings import settings
from provisioning.site_state import Outcome
from provisioning.sweep.ends import record_end
from provisioning.sweep.refusals import LISTED
from provisioning.sweep.snapshot import Snapshot
from tasks.answer_refusals import answer_refusals
from tasks.fail_site_terminally import fail_site_terminally
from tasks.find_refusal import find_refusal
from tasks.list_owed import list_owed
from tasks.query_stuck_sites import query_stuck_sites
from tasks.read_refusals import read_refusals
from tasks.record_refusal import record_refusal
from tasks.refresh_site import refresh_site
from tests.benchmarks.data import add_stuck, filled
from tests.benchmarks.figures import Figure
from tests.commands import ROOT
from tests.outbox.receivers import receiving

NAME = "counted"
PAGE = ROOT / "docs" / "benchmarks.md"
MOST = {"statements": 1.1, "blocks": 1.3}
"""How many times the figure of the page. One statement more for each site is above it."""

FIRST, CAP, THRESHOLD = 3_000_000_000, 25, timedelta(minutes=30)
STUCK, REFUSED, APPROVED, OWED = CAP, 10_000, 2_500, 500

COUNTS = """
SELECT sum(calls), sum(shared_blks_hit + shared_blks_read) FROM pg_stat_statements
  JOIN pg_database ON dbid = pg_database.oid WHERE datname = current_database()
"""


@dataclass
class Count:
    """What the database was asked for in one situation. Blocks are of 8 KiB, each time touched."""

    name: str
    seconds: float = 0
    statements: int = 0
    blocks: int = 0

    def figures(self) -> list[Figure]:
        """As rows of the page, with what the page as it is allows."""
        kept = on_the_page()
        return [Figure(NAME, f"{self.name}: time", self.seconds, "s")] + [
            Figure(
                NAME,
                f"{self.name}: {unit}",
                getattr(self, unit),
                unit,
                target=kept[self.name, unit] * most if (self.name, unit) in kept else None,
            )
            for unit, most in MOST.items()
        ]


def on_the_page() -> dict[tuple[str, str], int]:
    """The figures that docs/benchmarks.md keeps, by situation and unit."""
    row = re.compile(rf"^\| {NAME} \| (.+): (\w+) \| ([\d,]+) \2 \|", re.MULTILINE)
    return {
        (name, unit): int(value.replace(",", ""))
        for name, unit, value in row.findall(PAGE.read_text("utf-8"))
    }


@contextmanager
def counting_postgres() -> Iterator[LocalPostgres]:
    """A server of its own that counts the statements of each database."""
    with tempfile.TemporaryDirectory(prefix="reaper-", ignore_cleanup_errors=True) as folder:
        with (
            local_postgres(Path(folder), durable=False) as server,
            psycopg.connect(server.url(), autocommit=True) as connection,
        ):
            connection.execute("ALTER SYSTEM SET shared_preload_libraries = pg_stat_statements")
            connection.execute("ALTER SYSTEM SET autovacuum = off")
        with local_postgres(Path(folder), durable=False) as server:
            yield server


@asynccontextmanager
async def counting(url: str, name: str) -> AsyncIterator[Count]:
    """Counts all that anybody asks of the database within the `async with` block."""
    counted = Count(name)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        connection.execute("VACUUM (ANALYZE)")
        connection.execute("SELECT pg_stat_statements_reset()")
        began = time.perf_counter()
        yield counted
        counted.seconds = time.perf_counter() - began
        row = connection.execute(COUNTS).fetchone()
        assert row
        # The reset itself is the first that is counted.
        counted.statements, counted.blocks = int(row[0]) - 1, int(row[1])


async def sweep(engine: AsyncEngine, *, approves: UUID | None = None) -> tuple[UUID, Snapshot]:
    """What the flow asks of the database, step by step, without Prefect around it."""
    run = uuid4()
    refusal = await find_refusal.fn(engine, approves, None) if approves else None
    seen = await query_stuck_sites.fn(engine, THRESHOLD, LISTED, writes=True, approves=refusal)
    past = await read_refusals.fn(engine, run)
    if refusal is None and seen.stuck_total > CAP:
        exceeded = CapExceeded("too many", found=seen.stuck_total, cap=CAP)
        await record_refusal.fn(engine, run, exceeded, seen, stands=True)
    else:
        if past.open:
            await answer_refusals.fn(engine, THRESHOLD, refusal)
        for site in seen.stuck:
            assert await refresh_site.fn(engine, site) is None
            outcome, _ = await fail_site_terminally.fn(
                engine,
                site,
                reason="watchdog: exceeded the 30-minute threshold without completing",
                source=Source.APPROVED if refusal else Source.WATCHDOG,
                flow_run_id=run,
                cutoff=seen.cutoff,
                by_person=False,
                note=None,
            )
            assert outcome is Outcome.REAPED

    async def deliver_one(notice: Notice) -> Delivery:
        return await deliver(engine, notice, settings())

    await side_by_side(sendable(await list_owed.fn(engine), settings()), deliver_one)
    await prune(engine)
    if refusal is None:
        await record_end(engine, "every-5-minutes", run, "Reaped")
    return run, seen


async def count(postgres: LocalPostgres) -> list[Count]:
    """Each situation once, on 10,000 sites that are well."""
    url = filled(postgres, "counted", 10_000)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DELETE FROM sites WHERE metadata -> 'health_check' IS NULL")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PROVISION_DATABASE_URL", url)
        environment.setenv("PROVISION_WEBHOOK_ALLOW_PRIVATE_NETWORKS", "true")
        settings.cache_clear()
        async with receiving() as merchant:
            counts = [
                await _sweep_of_few(url, merchant.url()),
                await _notices_owed(url, merchant.url()),
                *await _refusal_and_approval(url),
            ]
            assert len(merchant.requests) == STUCK + OWED
    settings.cache_clear()
    return counts


async def _sweep_of_few(url: str, webhook: str) -> Count:
    add_stuck(url, FIRST, STUCK, webhook)
    async with counting(url, f"a sweep that reaps {STUCK}") as counted, database(url) as engine:
        await sweep(engine)
    return counted


async def _notices_owed(url: str, webhook: str) -> Count:
    first = FIRST + 10_000
    attempt = add_stuck(url, first, OWED, webhook)
    async with database(url) as engine:
        for site in range(first, first + OWED):
            await fail_terminally(engine, site, attempt, reason="chain: x", source=Source.CHAIN)
    async with counting(url, f"{OWED} notices owed") as counted, database(url) as engine:
        await sweep(engine)
    return counted


async def _refusal_and_approval(url: str) -> list[Count]:
    first = FIRST + 20_000
    add_stuck(url, first, REFUSED)
    async with (
        counting(url, f"a refusal of {REFUSED:,}") as refused,
        database(url) as engine,
    ):
        _, seen = await sweep(engine)
        assert seen.stuck_total == REFUSED
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DELETE FROM sites WHERE id >= %s", [first + APPROVED])
    async with database(url) as engine:
        run, _ = await sweep(engine)
    async with (
        counting(url, f"an approval of {APPROVED:,}") as approved,
        database(url) as engine,
    ):
        _, seen = await sweep(engine, approves=run)
        assert seen.stuck_total == APPROVED
    return [refused, approved]


def run() -> list[Figure]:
    """The counts and the times, on a server of their own."""
    with counting_postgres() as postgres:
        counts = asyncio.run(count(postgres))
    return [figure for each in counts for figure in each.figures()]
