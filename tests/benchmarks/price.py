"""5. The platform's price: what our index costs an update of `metadata`."""

import time

import psycopg

from deployments.postgres import LocalPostgres
from tests.benchmarks.data import drop, filled
from tests.benchmarks.figures import Figure

NAME = "price"
SITES, UPDATES, ROUNDS = 5_000, 10_000, 3


async def run(postgres: LocalPostgres) -> list[Figure]:
    """A loop that does nothing but update `metadata`, with our index and without, in turns."""
    with_index, without = (filled(postgres, f"bench_price_{i}", SITES) for i in range(2))
    with psycopg.connect(without, autocommit=True) as connection:
        connection.execute("DROP INDEX sites_provision_in_flight")
    seconds = {with_index: 0.0, without: 0.0}
    wal = {with_index: 0, without: 0}
    for number in range(ROUNDS):
        for url in seconds:
            taken, written = _update(url, number)
            seconds[url] += taken
            wal[url] += written
    for url in seconds:
        drop(postgres, url)
    slower, wider = seconds[with_index] / seconds[without], wal[with_index] / wal[without]
    return [
        Figure(NAME, "throughput of updates, with ÷ without our index", 1 / slower, "times"),
        Figure(NAME, "WAL of updates, with ÷ without our index", wider, "times"),
    ]


def _update(url: str, number: int) -> tuple[float, int]:
    """The seconds and the bytes of WAL of one round, after a checkpoint."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM sites")
        connection.execute("CHECKPOINT")
        connection.execute("SET synchronous_commit = off")
        before = connection.execute("SELECT pg_current_wal_insert_lsn()").fetchone()
        started = time.perf_counter()
        for update in range(UPDATES):
            connection.execute(
                "UPDATE sites SET metadata = metadata || jsonb_build_object('visits', %s::int)"
                " WHERE id = %s",
                [number * UPDATES + update, 1 + (update * 7_919) % SITES],
            )
        taken = time.perf_counter() - started
        written = connection.execute(
            "SELECT pg_current_wal_insert_lsn() - %s::pg_lsn", before
        ).fetchone()
        assert written
        return taken, int(written[0])
