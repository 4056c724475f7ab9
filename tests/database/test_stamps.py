"""The words of the design, decided by a real PostgreSQL: started, stuck, unreadable, in flight.

Cases F03, F04, F07, F20 and F24, and their kinds.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.sweep.snapshot import Snapshot, look
from tests.sites import OLD, YOUNG, Sites, number, stamp

pytestmark = pytest.mark.heart

THRESHOLD = timedelta(minutes=30)


async def see(engine: AsyncEngine, limit: int = 1_000) -> Snapshot:
    return await look(engine, THRESHOLD, limit, writes=True)


def ids(rows: Any) -> list[int]:
    return sorted(number(row.site_id) for row in rows)


def ago(age: timedelta, form: str, zone: timedelta = timedelta()) -> str:
    return (datetime.now(UTC) - age + zone).strftime(form)


@pytest.mark.parametrize("server_zone", ["UTC", "America/New_York", "Asia/Tokyo", "Asia/Kolkata"])
@pytest.mark.parametrize("date_style", ["ISO, MDY", "SQL, DMY"])
async def test_a_stamp_means_one_instant_whatever_the_server_is_set_to(
    sites: Sites, engine: AsyncEngine, server_zone: str, date_style: str
) -> None:
    database = await sites.database()
    await sites.run(f"ALTER DATABASE {database} SET timezone = '{server_zone}'")
    await sites.run(f"ALTER DATABASE {database} SET datestyle = '{date_style}'")
    await engine.dispose()
    two_hours, five_hours = timedelta(hours=2), timedelta(hours=5)
    await sites.add_started(1, ago(YOUNG, "%Y-%m-%d %H:%M:%S"))
    await sites.add_started(2, ago(OLD, "%Y-%m-%dT%H:%M:%S+02:00", two_hours))
    await sites.add_started(3, ago(YOUNG, "%Y-%m-%dT%H:%M:%S-05:00", -five_hours))
    await sites.add_started(4, ago(OLD, "%Y-%m-%d %H:%M:%S"))
    await sites.add_started(5, ago(YOUNG, "%Y-%m-%dT%H:%M:%S.%fZ"))
    await sites.add_started(6, ago(OLD, "%Y-%m-%dt%H:%M:%S,123456789z"))
    seen = await see(engine)
    assert ids(seen.stuck) == [2, 4, 6]
    assert (seen.in_flight, seen.unreadable_total) == (6, 0)


UNREADABLE = [
    "",
    " ",
    "now",
    "epoch",
    "infinity",
    "yesterday",
    "2025-01-15",
    "2025-02-29T14:00:00Z",
    "2025-13-01T00:00:00Z",
    "2025-01-15T24:00:00Z",
    "2025-01-15T14:00:60Z",
    "0001-01-01T00:00:00Z",
    "1970-01-01T00:00:00Z",
    "1999-12-31T23:59:59Z",
    "2025-01-15T14:00:00 Europe/Berlin",
    "2025-01-15T14:00:00+15:00",
    "Wed, 15 Jan 2025 14:00:00 GMT",
    "15/01/2025 14:00:00",
    "２０２５-01-15T14:00:00Z",
    "2025-01-15T14:00:00Z\n",
    1736952336,
    1736952336000,
    1736952336.5,
    0,
    False,
    True,
    [],
    {},
    ["2025-01-15T14:00:00Z"],
    {"date": "2025-01-15 14:00:00.000000", "timezone_type": 3, "timezone": "UTC"},
]


@pytest.mark.guarantee(
    fault="start stamps that are no date and time (F04, F24)",
    holds="listed, never stuck",
)
async def test_what_is_no_date_and_time_is_listed_and_never_stuck(
    sites: Sites, engine: AsyncEngine
) -> None:
    for site_id, started in enumerate(UNREADABLE):
        await sites.add_started(site_id, started)
    for site_id in range(100, 104):
        await sites.add_started(site_id)
    seen = await see(engine)
    assert ids(seen.stuck) == [100, 101, 102, 103]
    assert ids(seen.unreadable) == list(range(len(UNREADABLE)))
    assert seen.in_flight == seen.stuck_total + seen.unreadable_total


async def test_a_start_in_the_future_is_unreadable_beyond_five_minutes(
    sites: Sites, engine: AsyncEngine
) -> None:
    await sites.add_started(1, stamp(-timedelta(days=1)))
    await sites.add_started(2, stamp(-timedelta(minutes=6)))
    await sites.add_started(3, stamp(-timedelta(minutes=4)))
    seen = await see(engine)
    assert ids(seen.unreadable) == [1, 2]
    assert ids(seen.stuck) == []


@pytest.mark.parametrize(
    ("more", "in_flight"),
    [
        ({}, True),
        ({"terminal_failure": None, "health_check": {"completed_at": None}}, True),
        ({"health_check": None}, True),
        ({"health_check": "ok"}, True),
        ({"health_check": []}, True),
        ({"health_check": {}}, True),
        ({"health_check": {"completed_at": "2025-01-15T15:00:00Z"}}, False),
        ({"health_check": {"completed_at": ""}}, False),
        ({"health_check": {"completed_at": False}}, False),
        ({"health_check": {"completed_at": []}}, False),
        ({"terminal_failure": {}}, False),
        ({"terminal_failure": 0}, False),
        ({"terminal_failure": "x"}, False),
    ],
)
async def test_null_and_missing_are_not_stamped_and_anything_else_is(
    sites: Sites, engine: AsyncEngine, more: dict[str, Any], in_flight: bool
) -> None:
    await sites.add_started(1, **more)
    assert ids((await see(engine)).stuck) == ([1] if in_flight else [])


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        {},
        [],
        "double encoded: {}",
        42,
        {"provision": None},
        {"provision": []},
        {"provision": {"started_at": None}},
        [{"provision": {"started_at": "2025-01-15T14:00:00Z"}}],
        '{"theme": "dark"}',
        '{"provision": {"started_at": null}}',
    ],
)
async def test_without_a_start_stamp_nothing_is_in_flight(
    sites: Sites, engine: AsyncEngine, metadata: Any
) -> None:
    await sites.add(1, metadata)
    seen = await see(engine)
    assert (seen.in_flight, seen.stuck_total, seen.unreadable_total) == (0, 0, 0)


async def test_a_site_is_stuck_strictly_after_the_threshold(
    sites: Sites, engine: AsyncEngine
) -> None:
    await sites.add_started(1, stamp(THRESHOLD + timedelta(seconds=2)))
    await sites.add_started(2, stamp(THRESHOLD - timedelta(seconds=20)))
    assert ids((await see(engine)).stuck) == [1]


async def test_the_oldest_come_first_and_the_total_is_exact(
    sites: Sites, engine: AsyncEngine
) -> None:
    await sites.add_many(120)
    seen = await see(engine, limit=50)
    assert ids(seen.stuck) == list(range(1, 51))
    assert (seen.stuck_total, seen.in_flight) == (120, 120)


async def test_since_when_a_site_stands_at_its_step_is_read_if_the_platform_says_so(
    engine: AsyncEngine, sites: Sites
) -> None:
    said = {"step": "dns", "step_at": "2025-01-15T14:05:00.5+01:00"}
    await sites.add_started(1, provision=said)
    await sites.add_started(2, provision={"step": "dns", "step_at": "gestern"})
    await sites.add_started(3, provision={"step": "dns"})
    seen = (await see(engine)).stuck
    expected = datetime(2025, 1, 15, 13, 5, 0, 500_000, tzinfo=UTC)
    assert {str(site.site_id)[-1]: site.step_at for site in seen} == {
        "1": expected,
        "2": None,
        "3": None,
    }
