"""The one terminal-failure path: one mark, one ledger row, and the notices owed, or nothing.

Cases F01, F02, F08 and F14 with real connections. The races were seen failing with the conditions
taken out of the UPDATE: the site ended completed and failed at once.
"""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.errors import DatabaseUnready
from provisioning.failures import Source, fail_terminally
from provisioning.site_state import Outcome
from provisioning.sweep.snapshot import look
from tests.sites import OLD, Sites, site, stamp

pytestmark = pytest.mark.heart


def cutoff() -> datetime:
    return datetime.now(UTC) - timedelta(minutes=30)


async def fail(
    engine: AsyncEngine, attempt: str, site_id: int = 1, reason: str = "watchdog: late"
) -> Outcome:
    return await fail_terminally(
        engine,
        site(site_id),
        attempt,
        reason=reason,
        source=Source.WATCHDOG,
        flow_run_id=uuid4(),
        started_before=cutoff(),
    )


async def test_the_mark_is_merged_and_nothing_else_is_touched(
    sites: Sites, engine: AsyncEngine
) -> None:
    attempt = await sites.add_started(1, keep={"me": [1, None]}, provision={"step": "dns"})
    before = await sites.metadata(1)
    assert await fail(engine, attempt) is Outcome.REAPED
    after = await sites.metadata(1)
    mark = after.pop("terminal_failure")
    assert after == before
    assert set(mark) == {"failed_at", "reason", "source", "started_at", "flow_run_id"}
    assert (mark["source"], mark["started_at"]) == ("watchdog", attempt)
    assert datetime.fromisoformat(mark["failed_at"]).tzinfo is not None


async def test_metadata_with_nothing_but_a_start_gets_the_mark(
    sites: Sites, engine: AsyncEngine
) -> None:
    attempt = await sites.add_started(1)
    assert await fail(engine, attempt) is Outcome.REAPED
    assert await sites.failed() == [1]


async def test_a_second_call_changes_nothing_and_owes_nothing(
    sites: Sites, engine: AsyncEngine
) -> None:
    attempt = await sites.add_started(1, provision={"webhook": "https://merchant.example/hook"})
    assert await fail(engine, attempt) is Outcome.REAPED
    once = (await sites.metadata(1), await sites.ledger(), await sites.notices())
    assert await fail(engine, attempt) is Outcome.ALREADY_FAILED
    assert (await sites.metadata(1), await sites.ledger(), await sites.notices()) == once
    assert once[1:] == ([1], [("webhook", "https://merchant.example/hook")])


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        ({"health_check": {"completed_at": "2025-01-15T15:00:00Z"}}, Outcome.FINISHED),
        ({"terminal_failure": {"reason": "the chain's"}}, Outcome.ALREADY_FAILED),
        ({"provision": {"started_at": "2025-01-15T15:29:00Z"}}, Outcome.RESTARTED),
        ({"provision": None}, Outcome.RESTARTED),
    ],
)
async def test_an_attempt_that_moved_on_is_left_alone(
    sites: Sites, engine: AsyncEngine, change: dict[str, object], outcome: Outcome
) -> None:
    attempt = await sites.add_started(1)
    await sites.merge(1, change)
    before = await sites.metadata(1)
    assert await fail(engine, attempt) is outcome
    assert await sites.metadata(1) == before
    assert await sites.ledger() == []


async def test_a_deleted_site_vanished(engine: AsyncEngine) -> None:
    assert await fail(engine, stamp()) is Outcome.VANISHED


async def test_an_attempt_younger_than_the_cutoff_is_left_alone(
    sites: Sites, engine: AsyncEngine
) -> None:
    attempt = await sites.add_started(1, stamp(timedelta(minutes=1)))
    assert await fail(engine, attempt) is Outcome.BUSY
    assert await sites.failed() == []


async def test_the_chain_fails_its_own_attempt_however_young(
    sites: Sites, engine: AsyncEngine
) -> None:
    attempt = await sites.add_started(1, stamp(timedelta(seconds=1)))
    outcome = await fail_terminally(
        engine, site(1), attempt, reason="dns answered SERVFAIL", source=Source.CHAIN
    )
    assert outcome is Outcome.REAPED
    assert (await sites.metadata(1))["terminal_failure"]["flow_run_id"] is None


async def test_a_new_attempt_fails_with_a_ledger_row_of_its_own(
    sites: Sites, engine: AsyncEngine
) -> None:
    first = await sites.add_started(1)
    assert await fail(engine, first) is Outcome.REAPED
    second = stamp(OLD - timedelta(minutes=5))
    await sites.merge(1, {"provision": {"started_at": second}, "terminal_failure": None})
    assert await fail(engine, second) is Outcome.REAPED
    assert await sites.ledger() == [1, 1]


@pytest.mark.guarantee(
    fault="the platform saves a stale document over the mark",
    holds="marked again, one ledger row, one notice",
    guard="ledger key: without it and its ON CONFLICT, two webhooks for one attempt",
)
async def test_a_mark_that_the_platform_saved_over_is_set_again_and_nobody_is_told_twice(
    sites: Sites, engine: AsyncEngine
) -> None:
    attempt = await sites.add_started(1, provision={"webhook": "https://merchant.example/hook"})
    stale = await sites.metadata(1)
    await fail(engine, attempt)
    await sites.run(
        "UPDATE sites SET metadata = CAST(:stale AS jsonb) WHERE id = :id",
        stale=json.dumps(stale),
        id=site(1),
    )
    assert await fail(engine, attempt) is Outcome.REAPED
    assert await sites.failed() == [1]
    assert len(await sites.ledger()) == len(await sites.notices()) == 1


async def test_a_reason_that_cannot_be_stored_does_not_stop_the_mark(
    sites: Sites, engine: AsyncEngine
) -> None:
    attempt = await sites.add_started(1)
    assert await fail(engine, attempt, reason="a\x00b\ud800" + "x" * 5_000) is Outcome.REAPED
    assert (await sites.metadata(1))["terminal_failure"]["reason"].startswith("a�b?xxx")


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        ({"health_check": {"completed_at": "2025-01-15T15:30:00Z"}}, Outcome.FINISHED),
        ({"provision": {"started_at": "2025-01-15T15:29:00Z"}}, Outcome.RESTARTED),
    ],
    ids=["F01 completed", "F02 restarted"],
)
@pytest.mark.guarantee(
    fault="the chain completes or restarts while the sweep waits for the row (F01, F02)",
    holds="nothing is written; the outcome is what was committed",
    guard=(
        "conditional write: with its conditions in a subquery of the UPDATE, both end "
        "reaped: completed and failed at once"
    ),
)
async def test_a_sweep_that_waited_for_the_row_sees_what_was_committed(
    sites: Sites,
    engine: AsyncEngine,
    platform_url: str,
    change: dict[str, object],
    outcome: Outcome,
) -> None:
    attempt = await sites.add_started(1)
    async with await psycopg.AsyncConnection.connect(platform_url) as chain:
        await chain.execute(
            "UPDATE sites SET metadata = metadata || %s WHERE id = %s",
            [json.dumps(change), site(1)],
        )
        failing = asyncio.create_task(fail(engine, attempt))
        await sites.wait_for_a_lock()
        await chain.commit()
    assert await failing is outcome
    assert await sites.failed() == []
    assert await sites.ledger() == []
    assert await sites.notices() == []


@pytest.mark.guarantee(
    fault="somebody holds the row",
    holds="busy within half a second, nothing written",
)
async def test_a_row_held_for_longer_than_the_bound_is_busy(
    sites: Sites, engine: AsyncEngine, platform_url: str
) -> None:
    attempt = await sites.add_started(1)
    async with await psycopg.AsyncConnection.connect(platform_url) as chain:
        await chain.execute("SELECT 1 FROM sites WHERE id = %s FOR UPDATE", [site(1)])
        assert await fail(engine, attempt) is Outcome.BUSY
    assert await sites.failed() == []
    assert await sites.ledger() == []


@pytest.mark.guarantee(
    fault="a worker that is stopped (SIGSTOP) right after its mark",
    holds="the mark is committed by then, and no row stays locked",
    guard="with a transaction around the statement, the row is locked and the outcome busy",
)
async def test_the_mark_is_committed_with_its_statement(
    sites: Sites, engine: AsyncEngine, platform_url: str
) -> None:
    attempt = await sites.add_started(1)
    others_see = []

    def look_from_outside(*_: object) -> None:
        with psycopg.connect(platform_url) as platform:
            platform.execute("SELECT 1 FROM sites WHERE id = %s FOR UPDATE NOWAIT", [site(1)])
            others_see.append(platform.execute("SELECT attempt FROM terminal_failures").fetchall())

    event.listen(engine.sync_engine, "after_cursor_execute", look_from_outside)
    assert await fail(engine, attempt) is Outcome.REAPED
    assert others_see == [[(attempt,)]]


@pytest.mark.guarantee(
    fault="four callers at once fail each of twenty attempts",
    holds="twenty marks, rows and notices",
    guard=(
        "conditional write: with its conditions in a subquery of the UPDATE, 46 marks for 20 sites"
    ),
)
async def test_many_callers_at_once_fail_an_attempt_once(sites: Sites, engine: AsyncEngine) -> None:
    attempts = [
        await sites.add_started(i, provision={"webhook": "https://merchant.example/hook"})
        for i in range(20)
    ]
    outcomes = await asyncio.gather(
        *(fail(engine, attempt, i) for i, attempt in enumerate(attempts) for _ in range(4))
    )
    assert outcomes.count(Outcome.REAPED) == 20
    assert set(outcomes) == {Outcome.REAPED, Outcome.ALREADY_FAILED}
    assert await sites.ledger() == list(range(20))
    assert len(await sites.notices()) == 20


async def test_a_crash_before_the_commit_leaves_nothing_behind(
    sites: Sites, engine: AsyncEngine
) -> None:
    attempt = await sites.add_started(1, provision={"webhook": "https://merchant.example/hook"})
    await sites.run("ALTER TABLE notices ADD CONSTRAINT refuse CHECK (false)")
    with pytest.raises(Exception, match="refuse"):
        await fail(engine, attempt)
    assert await sites.failed() == []
    assert await sites.ledger() == []


async def test_a_sweep_waits_for_the_database_to_be_ready(
    sites: Sites, engine: AsyncEngine
) -> None:
    await sites.run("DROP INDEX sites_provision_in_flight")
    with pytest.raises(DatabaseUnready, match="index sites_provision_in_flight is missing"):
        await look(engine, timedelta(minutes=30), 100, writes=True)
