"""A mark is checked, not assumed: what ties the sweep's hands is told, and nothing is recorded.

As the role of the README. G07, and what G25, G28, G29 ask of the snapshot.
"""

from datetime import timedelta
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.errors import NotMarked
from provisioning.failures import Source, fail_terminally, times_marked_again
from provisioning.outbox.notices import Told
from provisioning.site_state import Outcome
from provisioning.sweep.holders import UNKNOWN, who_holds
from provisioning.sweep.last_hour import Busiest
from provisioning.sweep.snapshot import look
from tests.database.test_permissions import THRESHOLD, reaper
from tests.sites import Sites, number, stamp

__all__ = ["reaper"]

SITE = 3_000_000_001


async def fail(engine: AsyncEngine) -> Outcome:
    """Fail the one site that is stuck, as a sweep does."""
    seen = await look(engine, THRESHOLD, 100, writes=True)
    (site,) = seen.stuck
    return await fail_terminally(
        engine,
        site.site_id,
        site.attempt,
        reason="watchdog: late",
        source=Source.WATCHDOG,
        told=Told.LATE,
        flow_run_id=uuid4(),
        started_before=seen.cutoff,
        teardown=True,
    )


def trigger(when: str, body: str, condition: str = "") -> list[str]:
    return [
        f"CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} END $$",
        f"CREATE TRIGGER meddle {when} UPDATE ON sites FOR EACH ROW {condition} "
        "EXECUTE FUNCTION meddle()",
    ]


SWALLOWS = trigger("BEFORE", "RETURN NULL;")
RESTORES = trigger("BEFORE", "NEW.metadata := OLD.metadata; RETURN NEW;")
UNDOES = trigger(
    "AFTER",
    "UPDATE sites SET metadata = OLD.metadata WHERE id = OLD.id; RETURN NULL;",
    "WHEN (pg_trigger_depth() = 0)",
)


@pytest.mark.parametrize(
    ("ties", "said"),
    [(SWALLOWS, "changed no row"), (RESTORES, "not there in what the UPDATE itself returned")],
    ids=["returns NULL", "restores"],
)
@pytest.mark.guarantee(
    fault="a trigger that returns NULL, or that restores the metadata (G07)",
    holds="errored with what to look for; no ledger row and no notice",
    guard="without the look at what the UPDATE returns, reaped; without the second look, busy",
)
async def test_a_mark_that_a_trigger_prevents_is_an_error_and_is_not_recorded(
    reaper: AsyncEngine, sites: Sites, ties: list[str], said: str
) -> None:
    await sites.add_started(SITE, provision={"webhook": "https://merchant.example/hook"})
    for statement in ties:
        await sites.run(statement)
    with pytest.raises(NotMarked, match=said) as raised:
        await fail(reaper)
    assert "trigger" in str(raised.value)
    assert (await sites.ledger(), await sites.notices(), await sites.failed()) == ([], [], [])


@pytest.mark.guarantee(
    fault="a trigger that undoes the mark after it was set",
    holds="errored as soon as it is read back",
    guard="without reading it back, reaped",
)
async def test_a_mark_that_a_second_update_undoes_is_an_error(
    reaper: AsyncEngine, sites: Sites
) -> None:
    attempt = await sites.add_started(SITE)
    for statement in UNDOES:
        await sites.run(statement)
    await sites.run("ALTER FUNCTION meddle() SECURITY DEFINER")
    assert await fail(reaper) is Outcome.REAPED
    with pytest.raises(NotMarked, match="was set and is gone again"):
        await times_marked_again(reaper, SITE, attempt)


@pytest.mark.guarantee(
    fault="the platform saves a stale document over the mark, again and again",
    holds="each time counted in the ledger; one row, one notice of each kind",
    guard="without the count, the second time looks like the first",
)
async def test_a_mark_that_is_gone_is_set_again_and_counted(
    reaper: AsyncEngine, sites: Sites
) -> None:
    attempt = await sites.add_started(SITE, provision={"webhook": "https://merchant.example/hook"})
    for times in range(3):
        assert await fail(reaper) is Outcome.REAPED
        assert await times_marked_again(reaper, SITE, attempt) == times
        await sites.run("UPDATE sites SET metadata = metadata - 'terminal_failure'")
    assert len(await sites.ledger()) == 1
    assert len(await sites.notices()) == 2


async def test_a_hold_that_comes_at_the_last_moment_leaves_the_site_alone(
    reaper: AsyncEngine, sites: Sites
) -> None:
    attempt = await sites.add_started(SITE)
    seen = await look(reaper, THRESHOLD, 100, writes=True)
    await sites.merge(SITE, {"provision": {"started_at": attempt, "hold": "I look at it"}})
    outcome = await fail_terminally(
        reaper,
        SITE,
        attempt,
        reason="watchdog: late",
        source=Source.WATCHDOG,
        started_before=seen.cutoff,
    )
    assert outcome is Outcome.BUSY
    assert await sites.ledger() == []


async def test_who_holds_a_row_is_told_as_far_as_the_role_may_see_it(
    reaper: AsyncEngine, sites: Sites, engine: AsyncEngine, database_url: str
) -> None:
    await sites.add_started(SITE)
    (site,) = (await look(reaper, THRESHOLD, 100, writes=True)).stuck
    assert await who_holds(reaper, site) == UNKNOWN
    async with await psycopg.AsyncConnection.connect(database_url) as platform:
        await platform.execute(f"SELECT 'hunter2' FROM sites WHERE id = {SITE} FOR UPDATE")
        pid = platform.info.backend_pid
        assert await who_holds(reaper, site) == f"process {pid} of role postgres holds it"
        seen = await who_holds(engine, site)
        assert f"process {pid} of role postgres holds it, idle in transaction since 20" in seen
        assert "hunter2" not in seen
        await sites.run("REVOKE SELECT ON sites FROM reaper")
        await sites.run("GRANT SELECT (id, domain, metadata) ON sites TO reaper")
        assert await who_holds(reaper, site) == UNKNOWN


async def test_rows_of_the_future_are_not_of_the_last_hour(
    reaper: AsyncEngine, sites: Sites
) -> None:
    """G25: a clock that was wrong once would hold every sweep back."""
    for hours in (20, 0):
        await sites.run(
            "INSERT INTO terminal_failures (id, site_id, attempt, failed_at, reason, source) "
            f"SELECT gen_random_uuid(), i::text, 'x{hours}', now() + interval '{hours} hours' "
            "- interval '1 minute', 'r', 'watchdog' FROM generate_series(1, 100) i"
        )
    assert (await look(reaper, THRESHOLD, 100, writes=True)).reaped_last_hour == 100


async def test_groups_are_counted_over_all_the_stuck_however_few_are_listed(
    reaper: AsyncEngine, sites: Sites
) -> None:
    await sites.add_many(30, step="dns")
    await sites.add_many(10, first=100, step="")
    seen = await look(reaper, THRESHOLD, 5, writes=True)
    assert (len(seen.stuck), seen.stuck_total) == (5, 40)
    assert [(g.label, g.size) for g in seen.groups.steps] == [("dns", 30), ("no step stamped", 10)]
    assert sum(group.size for group in seen.groups.starts) == 40


@pytest.mark.parametrize(
    "spread", ["1 second", "1 minute", "7 minutes", "1 hour", "1 day", "10 days"]
)
async def test_start_times_fall_into_few_groups_that_add_up(
    reaper: AsyncEngine, sites: Sites, spread: str
) -> None:
    await sites.run(
        "INSERT INTO sites SELECT i, 'd', jsonb_build_object('provision', jsonb_build_object("
        "'started_at', to_char(now() AT TIME ZONE 'UTC' - interval '1 hour' - i * interval "
        f'\'{spread}\', \'YYYY-MM-DD"T"HH24":"MI":"SS\'))) FROM generate_series(1, 100) i'
    )
    groups = (await look(reaper, THRESHOLD, 5, writes=True)).groups
    assert 1 < len(groups.starts) <= 48 or spread == "1 second"
    assert sum(group.size for group in groups.starts) == 100 or len(groups.starts) == 48
    assert list(groups.starts) == sorted(groups.starts, key=lambda group: group.first)


async def test_what_is_on_hold_or_before_its_deadline_is_listed_with_its_value(
    reaper: AsyncEngine, sites: Sites
) -> None:
    for site_id in range(1, 27):
        await sites.add_started(site_id, provision={"hold": "support looks at it"})
    await sites.add_started(30, provision={"deadline": stamp(-timedelta(hours=2))})
    await sites.add_started(31, stamp(timedelta(minutes=1)), provision={"deadline": stamp()})
    for site_id in (40, 41, 42):
        await sites.add_started(site_id)
    seen = await look(reaper, THRESHOLD, 100, writes=True)
    assert [number(site.site_id) for site in seen.stuck] == [40, 41, 42]
    assert (seen.on_hold_total, len(seen.on_hold)) == (26, 26)
    assert {site.stamp for site in seen.on_hold} == {"support looks at it"}
    assert [(number(site.site_id), site.stamp[:2]) for site in seen.waiting] == [(30, "20")]
    assert (seen.waiting_total, seen.unreadable_total, seen.in_flight) == (1, 0, 31)


async def test_the_busiest_run_and_hour_are_those_of_a_month_without_a_person(
    sites: Sites, reaper: AsyncEngine
) -> None:
    rows = """
        INSERT INTO terminal_failures
            (id, site_id, attempt, failed_at, reason, source, flow_run_id, by_person)
        SELECT gen_random_uuid(), CAST(:tag AS text) || n, 'a',
               now() - CAST(:ago AS interval) + n * interval '1 second', 'r',
               CAST(:source AS text), CAST(:run AS uuid), :person
          FROM generate_series(1, CAST(:number AS int)) AS n
    """
    for place, (ago, source, person, many) in enumerate(
        [
            ("2 days", "watchdog", False, 3),
            ("2 days -50 minutes", "watchdog", False, 2),
            ("31 days", "watchdog", False, 9),
            ("3 days", "watchdog", True, 9),
            ("3 days", "approved", True, 9),
        ]
    ):
        run = f"00000000-0000-4000-8000-00000000000{place}"
        await sites.run(
            rows, tag=f"x{place}-", ago=ago, source=source, run=run, person=person, number=many
        )
    assert (await look(reaper, THRESHOLD, 100, writes=True)).busiest == Busiest(run=3, hour=5)
