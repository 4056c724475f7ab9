"""2. The write: mark, ledger row and two notices, against a bare update of one row."""

from datetime import UTC, datetime, timedelta
from itertools import count, islice

from sqlalchemy import text

from deployments.postgres import LocalPostgres
from provisioning.database import database
from provisioning.failures import Source, fail_terminally
from provisioning.site_state import Outcome
from tests.benchmarks.data import add_stuck, drop, filled
from tests.benchmarks.figures import Figure, medians

NAME = "write"
MARKS, ROUNDS = 25, 31

BARE = text(
    "UPDATE sites SET metadata = metadata || jsonb_build_object('terminal_failure',"
    " jsonb_build_object('failed_at', now(), 'reason', 'x', 'source', 'watchdog'))"
    " WHERE id = :id"
)


async def run(postgres: LocalPostgres) -> list[Figure]:
    """25 marks against 25 bare updates, each in a transaction of its own."""
    url = filled(postgres, "bench_write", 10_000)
    needed = 2 * MARKS * (ROUNDS + 2)
    attempt = add_stuck(url, 100_001, needed, webhook="https://merchant.example/hook")
    ids = count(100_001)
    async with database(url) as engine:

        async def ours() -> None:
            for site_id in islice(ids, MARKS):
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

        async def bare() -> None:
            for site_id in islice(ids, MARKS):
                async with engine.begin() as transaction:
                    await transaction.execute(BARE, {"id": site_id})

        await ours()
        await bare()
        ours_time, bare_time = await medians(ROUNDS, ours, bare)
    drop(postgres, url)
    return [
        Figure(NAME, f"{MARKS} marks, ledger rows and {2 * MARKS} notices", ours_time * 1e3, "ms"),
        Figure(NAME, f"{MARKS} bare updates", bare_time * 1e3, "ms"),
        Figure(NAME, "marks ÷ bare updates", ours_time / bare_time, "times", target=2),
    ]
