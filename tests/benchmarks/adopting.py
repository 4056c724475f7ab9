"""6. Adopting: the migration of large tables while the platform goes on writing to them."""

import asyncio
import time

import psycopg

from deployments.postgres import LocalPostgres
from tests.benchmarks.data import drop, fill
from tests.benchmarks.figures import Figure
from tests.commands import migrate
from tests.sites import PLATFORM_TABLE

NAME = "adopting"
WRITERS = 4
PAUSE = 0.002
"""Seconds between two writes of one writer: a load, and not a machine without a free core."""


PARTITIONED = f"""
{PLATFORM_TABLE} PARTITION BY HASH (id);
CREATE TABLE sites_0 PARTITION OF sites FOR VALUES WITH (MODULUS 4, REMAINDER 0);
CREATE TABLE sites_1 PARTITION OF sites FOR VALUES WITH (MODULUS 4, REMAINDER 1);
CREATE TABLE sites_2 PARTITION OF sites FOR VALUES WITH (MODULUS 4, REMAINDER 2);
CREATE TABLE sites_3 PARTITION OF sites FOR VALUES WITH (MODULUS 4, REMAINDER 3);
"""


async def run(postgres: LocalPostgres, sites: int) -> list[Figure]:
    """A plain table of that many sites and a partitioned one, each beside its writers."""
    plain = await _adopted(postgres, sites, "a plain table", PLATFORM_TABLE)
    return plain + await _adopted(postgres, sites, "4 partitions", PARTITIONED)


async def _adopted(postgres: LocalPostgres, sites: int, kind: str, made: str) -> list[Figure]:
    """The longest that one of four writers waited while the table was adopted."""
    name = "bench_adopting"
    postgres.ensure_database(name)
    url = postgres.url(name)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(made.encode())
    fill(url, sites)
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
        Figure(NAME, f"{kind}: migration of {sites:,} sites", ended - started, "s"),
        Figure(NAME, f"{kind}: writes during it", len(during), "writes"),
        Figure(NAME, f"{kind}: longest write before it", max(before) * 1e3, "ms"),
        Figure(NAME, f"{kind}: longest write during it", max(during) * 1e3, "ms", target=100),
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
