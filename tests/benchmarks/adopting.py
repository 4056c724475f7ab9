"""6. Adopting: the migration of a large table while the platform goes on writing to it."""

import asyncio
import time

import psycopg

from deployments.postgres import LocalPostgres
from tests.benchmarks.data import drop, filled
from tests.benchmarks.figures import Figure
from tests.conftest import migrate

NAME = "adopting"
WRITERS = 4
PAUSE = 0.002
"""Seconds between two writes of one writer: a load, and not a machine without a free core."""


async def run(postgres: LocalPostgres, sites: int) -> list[Figure]:
    """The longest that one of four writers waited while a table of that many sites was adopted."""
    url = filled(postgres, "bench_adopting", sites)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP TABLE notices, terminal_failures, sweep_refusals")
        connection.execute("DROP TABLE provision_reaper_version")
        connection.execute("DROP INDEX sites_provision_in_flight")
        connection.execute("DROP FUNCTION iso_instant(text)")
    stop = asyncio.Event()
    writers = [asyncio.create_task(_write(url, number, sites, stop)) for number in range(WRITERS)]
    await asyncio.sleep(3)
    started = time.perf_counter()
    await asyncio.to_thread(migrate, url)
    ended = time.perf_counter()
    await asyncio.sleep(3)
    stop.set()
    waits = [wait for writer in writers for wait in await writer]
    during = [taken for began, taken in waits if started - taken <= began <= ended]
    before = [taken for began, taken in waits if began + taken < started]
    drop(postgres, url)
    return [
        Figure(NAME, f"migration of {sites:,} sites", ended - started, "s"),
        Figure(NAME, "writes during it", len(during), "writes"),
        Figure(NAME, "longest write before it", max(before) * 1e3, "ms"),
        Figure(NAME, "longest write during it", max(during) * 1e3, "ms", target=100),
    ]


async def _write(
    url: str, number: int, sites: int, stop: asyncio.Event
) -> list[tuple[float, float]]:
    """When each write began, and the seconds that it took."""
    waits = []
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        site_id = number
        while not stop.is_set():
            site_id = (site_id + 7_919) % sites + 1
            began = time.perf_counter()
            await connection.execute(
                "UPDATE sites SET metadata = metadata || '{\"visits\": 1}' WHERE id = %s",
                [site_id],
            )
            waits.append((began, time.perf_counter() - began))
            await asyncio.sleep(PAUSE)
    return waits
