"""A reaped site's database time through PgBouncer, against the same without it."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from itertools import count, islice

from sqlalchemy.ext.asyncio import AsyncEngine

from deployments.postgres import LocalPostgres
from provisioning.database import database
from provisioning.failures import Source, fail_terminally
from provisioning.site_state import Outcome
from provisioning.sweep.snapshot import Candidate, look_again
from tests.benchmarks.data import add_stuck, drop, filled
from tests.benchmarks.figures import Figure, medians
from tests.pooler.bouncer import bouncer

NAME = "pooled"
SITES, ROUNDS = 25, 31


async def run(postgres: LocalPostgres) -> list[Figure]:
    """25 sites, re-checked and failed: plain, with bounds in each statement, through PgBouncer."""
    url = filled(postgres, "bench_pooled", 10_000)
    attempt = add_stuck(url, 100_001, 3 * SITES * (ROUNDS + 2), webhook="https://merchant.example/")
    ids = count(100_001)

    def reaping(engine: AsyncEngine) -> Callable[[], Awaitable[None]]:
        async def reap() -> None:
            for site_id in islice(ids, SITES):
                site = Candidate(site_id, "", attempt, datetime.now(UTC), "")
                assert await look_again(engine, site) is None
                outcome = await fail_terminally(
                    engine,
                    site_id,
                    attempt,
                    reason="watchdog: exceeded the 30-minute threshold without completing",
                    source=Source.WATCHDOG,
                    started_before=datetime.now(UTC) - timedelta(minutes=30),
                    teardown=True,
                )
                assert outcome is Outcome.REAPED

        return reap

    with bouncer(postgres, "transaction") as pooler:
        async with (
            database(url) as plain,
            database(url, pooled=True) as bounded,
            database(pooler.through(url), pooled=True) as pooled,
        ):
            ways = [reaping(engine) for engine in (plain, bounded, pooled)]
            for reap in ways:
                await reap()
            plain_time, bounded_time, pooled_time = await medians(ROUNDS, *ways)
    drop(postgres, url)
    return [
        Figure(NAME, "a reaped site's database time", plain_time / SITES * 1e3, "ms"),
        Figure(NAME, "its bounds in each statement ÷ plain", bounded_time / plain_time, "times"),
        Figure(NAME, "through PgBouncer ÷ plain", pooled_time / plain_time, "times", target=1.2),
    ]
