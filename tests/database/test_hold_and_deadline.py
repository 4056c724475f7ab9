"""On hold, deadline, encoded twice: decided by a real PostgreSQL, at the index's cost.

Cases G17, G28 and G29, and their kinds.
"""

import json
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import ColumnElement, func, select
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.failures import Source, fail_terminally
from provisioning.schema import sites as table
from provisioning.stamps import (
    BEFORE_DEADLINE,
    ENCODED_TWICE,
    IN_FLIGHT,
    INDEXED,
    ON_HOLD,
    UNREADABLE,
    stuck_before,
)
from provisioning.sweep.snapshot import Snapshot, look
from tests.sites import ID_OF_I, OLD, SITES, YOUNG, Sites, number, stamp

pytestmark = pytest.mark.heart

THRESHOLD = timedelta(minutes=30)


async def see(engine: AsyncEngine) -> Snapshot:
    return await look(engine, THRESHOLD, 1_000, writes=True)


def ids(rows: Any) -> list[int]:
    return sorted(number(row.site_id) for row in rows)


FAR = stamp(-timedelta(hours=2))


@pytest.mark.parametrize(
    ("hold", "held"),
    [
        ("support looks at it", True),
        (True, True),
        ("", True),
        ("false", True),
        (0, True),
        ([], True),
        ({}, True),
        (False, False),
        (None, False),
    ],
)
async def test_a_site_on_hold_is_not_stuck_and_anything_but_false_holds_it(
    sites: Sites, engine: AsyncEngine, hold: Any, held: bool
) -> None:
    await sites.add_started(1, provision={"hold": hold})
    seen = await see(engine)
    assert ids(seen.stuck) == ([] if held else [1])
    assert await matching(sites, ON_HOLD) == ([1] if held else [])
    assert seen.in_flight == 1


async def test_before_its_deadline_a_site_is_not_stuck_and_after_it_is(
    sites: Sites, engine: AsyncEngine
) -> None:
    """Case G29, and deadlines in other forms."""
    await sites.add_started(1, provision={"deadline": FAR})
    await sites.add_started(2, provision={"deadline": FAR.replace("T", " ").replace("Z", " UTC")})
    await sites.add_started(3, provision={"deadline": stamp(timedelta(seconds=2))})
    await sites.add_started(4, provision={"deadline": None})
    await sites.add_started(5, stamp(YOUNG), provision={"deadline": stamp(OLD)})
    seen = await see(engine)
    assert ids(seen.stuck) == [3, 4]
    assert ids(seen.unreadable) == []
    assert await matching(sites, BEFORE_DEADLINE) == [1, 2]


@pytest.mark.parametrize("deadline", ["", "tomorrow", "2025-01-15", 1736952336, False, {}, []])
async def test_a_deadline_that_cannot_be_read_makes_the_site_unreadable(
    sites: Sites, engine: AsyncEngine, deadline: Any
) -> None:
    await sites.add_started(1, provision={"deadline": deadline})
    await sites.add_started(2, stamp(YOUNG), provision={"deadline": deadline})
    seen = await see(engine)
    assert (ids(seen.stuck), ids(seen.unreadable)) == ([], [1, 2])
    assert seen.unreadable[0].stamp.startswith("deadline")


async def test_a_hold_or_a_deadline_that_comes_after_the_query_stops_the_write(
    sites: Sites, engine: AsyncEngine
) -> None:
    for site_id in (1, 2, 3):
        await sites.add_started(site_id)
    seen = await see(engine)
    assert len(seen.stuck) == 3
    await sites.merge(1, {"provision": {"started_at": seen.stuck[0].attempt, "hold": "me"}})
    await sites.merge(2, {"provision": {"started_at": seen.stuck[1].attempt, "deadline": FAR}})
    for site in seen.stuck:
        await fail_terminally(
            engine,
            site.site_id,
            site.attempt,
            reason="watchdog: late",
            source=Source.WATCHDOG,
            started_before=seen.cutoff,
        )
    assert await sites.failed() == [3]


@pytest.mark.parametrize(
    "document",
    [
        json.dumps({"provision": {"started_at": "2025-01-15T14:00:00Z"}}),
        json.dumps({"provision": {"started_at": "2025-01-15T14:00:00Z"}}, separators=(",", ":")),
        json.dumps({"provision": {"started_at": "2025-01-15T14:00:00Z"}}, indent=2),
        json.dumps({"provision": {"started_at": 1736952336}}),
        json.dumps({"provision": {"started_at": "", "webhook": "https://user:secret@m.example"}}),
    ],
)
async def test_a_document_that_was_encoded_twice_is_listed_as_unreadable(
    sites: Sites, engine: AsyncEngine, document: str
) -> None:
    """Case G17: no path of such a document can be read, so nothing else would ever see it."""
    await sites.add(1, document)
    seen = await see(engine)
    assert (ids(seen.unreadable), seen.in_flight, seen.stuck_total) == ([1], 1, 0)
    assert seen.unreadable[0].stamp == "(the whole document is encoded twice)"


async def matching(sites: Sites, condition: ColumnElement[bool]) -> list[int]:
    async with sites.engine.connect() as connection:
        found = await connection.execute(select(table.c.id).where(condition).order_by(table.c.id))
        return [number(site_id) for site_id in found.scalars()]


@pytest.mark.parametrize(
    "condition",
    [
        IN_FLIGHT,
        UNREADABLE,
        ON_HOLD,
        BEFORE_DEADLINE,
        ENCODED_TWICE,
        INDEXED,
        stuck_before(func.now()),
    ],
    ids=["in flight", "unreadable", "on hold", "deadline", "encoded twice", "indexed", "stuck"],
)
async def test_each_question_costs_the_same_on_two_thousand_sites_and_on_two_hundred_thousand(
    sites: Sites, condition: ColumnElement[bool]
) -> None:
    """Buffers of the planner's own choice, with the same ten sites in flight."""
    for site_id in range(1, 5):
        await sites.add_started(site_id)
    await sites.add_started(5, "x")
    await sites.add_started(6, provision={"hold": True})
    await sites.add_started(7, provision={"deadline": FAR})
    await sites.add(8, json.dumps({"provision": {"started_at": "2025-01-15T14:00:00Z"}}))
    await add_finished(sites, 1_001, 3_000)
    few = await buffers(sites, condition)
    await add_finished(sites, 3_001, 201_000)
    many = await buffers(sites, condition)
    assert many <= few + 3 < 30


async def add_finished(sites: Sites, first: int, last: int) -> None:
    await sites.run(
        f"INSERT INTO sites SELECT {ID_OF_I}, 'x', jsonb_build_object("
        " 'provision', jsonb_build_object('started_at', '2025-01-15T14:00:00Z'),"
        " 'health_check', jsonb_build_object('completed_at', '2025-01-15T14:05:00Z'))"
        " FROM generate_series(CAST(:first AS bigint), CAST(:last AS bigint)) AS i",
        first=first,
        last=last,
    )
    async with sites.engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        await connection.exec_driver_sql(f"VACUUM ANALYZE {SITES}".replace("%", "%%"))


async def buffers(sites: Sites, condition: ColumnElement[bool]) -> int:
    query = select(table.c.id, table.c.domain).where(condition)
    async with sites.engine.connect() as connection:
        compiled = query.compile(dialect=connection.dialect, compile_kwargs={"literal_binds": True})
        plan = (
            await connection.exec_driver_sql(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {compiled}")
        ).scalar_one()[0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
