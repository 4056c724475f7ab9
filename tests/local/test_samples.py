"""The sample sites: every situation, in an empty table only."""

from datetime import timedelta

import psycopg
from sqlalchemy.ext.asyncio import AsyncEngine

from deployments.samples import add_samples, add_stuck
from provisioning.sweep.snapshot import Snapshot, look

THRESHOLD = timedelta(minutes=30)


async def seen_by(engine: AsyncEngine) -> Snapshot:
    """What a sweep with the usual threshold finds."""
    return await look(engine, THRESHOLD, 1000, writes=True)


async def test_there_are_several_in_every_situation(database_url: str, engine: AsyncEngine) -> None:
    assert add_samples(database_url) > 20
    snapshot = await seen_by(engine)
    assert 5 <= snapshot.stuck_total < 25
    assert len({candidate.step for candidate in snapshot.stuck}) >= 3
    assert len(snapshot.unreadable) == 3
    assert snapshot.in_flight > snapshot.stuck_total + len(snapshot.unreadable)
    with psycopg.connect(database_url) as connection:
        live, late, failed = connection.execute(
            """
            SELECT count(*) FILTER (WHERE metadata #>> '{health_check,completed_at}' IS NOT NULL),
                   count(*) FILTER (WHERE iso_instant(metadata #>> '{health_check,completed_at}')
                     - iso_instant(metadata #>> '{provision,started_at}') > interval '30 min'),
                   count(*) FILTER (WHERE metadata ? 'terminal_failure')
            FROM sites
            """
        ).fetchone() or (0, 0, 0)
    assert (live, late, failed) == (7, 2, 3)


async def test_a_table_that_holds_anything_gets_none(
    database_url: str, engine: AsyncEngine
) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute("INSERT INTO sites VALUES (1, 'mine.example', '{}')")
    assert add_samples(database_url) == 0
    assert (await seen_by(engine)).in_flight == 0


async def test_an_outage_adds_stuck_sites_of_one_step(
    database_url: str, engine: AsyncEngine
) -> None:
    add_samples(database_url)
    before = (await seen_by(engine)).stuck_total
    assert add_stuck(database_url, 30, "dns") == 30
    snapshot = await seen_by(engine)
    assert snapshot.stuck_total == before + 30
    assert len({candidate.domain for candidate in snapshot.stuck}) == snapshot.stuck_total
