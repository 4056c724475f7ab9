"""The stamps as plain functions: what they write, what they keep, and when they write nothing."""

import asyncio
import re
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.chain import attempt_of, begin, complete, fail, progress, remember_upstream, step
from provisioning.errors import (
    AlreadyInFlight,
    DatabaseError,
    NotInFlight,
    UnknownSite,
    Unstampable,
)
from provisioning.site_state import Outcome
from tests.sites import Sites, site

pytestmark = pytest.mark.heart

STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


async def test_begin_stamps_the_start_in_utc_with_microseconds(
    engine: AsyncEngine, sites: Sites
) -> None:
    await sites.add(1, {})
    attempt = await begin(engine, site(1))
    assert STAMP.fullmatch(attempt)
    assert await sites.metadata(1) == {"provision": {"started_at": attempt}}
    ((age,),) = await sites.rows(
        "SELECT clock_timestamp() - iso_instant(:attempt)", attempt=attempt
    )
    assert 0 <= age.total_seconds() < 5


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({}, id="nothing there"),
        pytest.param(None, id="JSON null"),
        pytest.param({"provision": None, "health_check": None}, id="null parents"),
        pytest.param({"provision": {"started_at": None}}, id="null stamp"),
    ],
)
async def test_an_attempt_goes_its_whole_way_whatever_is_missing(
    engine: AsyncEngine, sites: Sites, metadata: Any
) -> None:
    await sites.add(1, metadata)
    attempt = await begin(engine, site(1))
    await step(engine, site(1), attempt, "dns")
    await complete(engine, site(1), attempt)
    after = await sites.metadata(1)
    assert STAMP.fullmatch(after["provision"].pop("step_at"))
    assert after["provision"] == {"started_at": attempt, "step": "dns"}
    assert STAMP.fullmatch(after["health_check"]["completed_at"])


async def test_a_row_whose_metadata_is_sql_null_can_begin(
    engine: AsyncEngine, sites: Sites
) -> None:
    await sites.run("INSERT INTO sites VALUES (:id, 'shop.example', NULL)", id=site(1))
    attempt = await begin(engine, site(1))
    assert await sites.metadata(1) == {"provision": {"started_at": attempt}}


async def test_every_other_key_of_the_platform_stays(engine: AsyncEngine, sites: Sites) -> None:
    await sites.add(
        1,
        {
            "plan": "pro",
            "provision": {
                "webhook": "https://merchant.example/hook",
                "size": [1, 2],
                "step": "old",
                "started_at": "2026-01-01T00:00:00Z",
                "upstream_id": "5",
                "run_id": "old",
            },
            "health_check": {"url": "/up", "completed_at": "2026-01-01T00:10:00Z"},
            "terminal_failure": {"reason": "old"},
        },
    )
    attempt = await begin(engine, site(1), run_id="job-9")
    kept = {"webhook": "https://merchant.example/hook", "size": [1, 2]}
    assert await sites.metadata(1) == {
        "plan": "pro",
        "provision": kept | {"started_at": attempt, "run_id": "job-9"},
        "health_check": {"url": "/up"},
    }
    await step(engine, site(1), attempt, "dns")
    await remember_upstream(engine, site(1), attempt, "77")
    await complete(engine, site(1), attempt)
    after = await sites.metadata(1)
    assert after["plan"] == "pro"
    assert STAMP.fullmatch(after["provision"].pop("step_at"))
    assert after["provision"] == kept | {
        "started_at": attempt,
        "run_id": "job-9",
        "step": "dns",
        "upstream_id": "77",
    }
    assert after["health_check"].keys() == {"url", "completed_at"}


async def test_a_site_that_does_not_exist_is_an_error(engine: AsyncEngine, sites: Sites) -> None:
    with pytest.raises(UnknownSite, match=f"no site {site(404)}"):
        await begin(engine, site(404))


@pytest.mark.parametrize(
    "metadata",
    [
        "twice encoded",
        [],
        {"provision": "2026-01-01"},
        {"provision": [1]},
        {"health_check": "pending"},
    ],
)
async def test_metadata_with_no_room_for_stamps_is_left_as_it_is(
    engine: AsyncEngine, sites: Sites, metadata: Any
) -> None:
    await sites.add(1, metadata)
    with pytest.raises(Unstampable, match=f"site {site(1)}"):
        await begin(engine, site(1))
    assert await sites.metadata(1) == metadata


async def test_a_second_start_is_refused_while_one_is_in_flight(
    engine: AsyncEngine, sites: Sites
) -> None:
    await sites.add(1, {})
    attempt = await begin(engine, site(1), run_id="a")
    for other in ("b", None):
        with pytest.raises(AlreadyInFlight, match=re.escape(attempt)):
            await begin(engine, site(1), run_id=other)
    assert (await sites.metadata(1))["provision"]["started_at"] == attempt


async def test_the_same_run_goes_on_with_the_attempt_that_it_began(
    engine: AsyncEngine, sites: Sites
) -> None:
    await sites.add(1, {})
    attempt = await begin(engine, site(1), run_id="a")
    await remember_upstream(engine, site(1), attempt, "77")
    assert await begin(engine, site(1), run_id="a") == attempt
    assert (await sites.metadata(1))["provision"]["upstream_id"] == "77"
    assert await attempt_of(engine, site(1), "a") == attempt
    assert await attempt_of(engine, site(1), "b") is None


async def test_of_many_starts_at_once_one_begins(engine: AsyncEngine, sites: Sites) -> None:
    for site_id in range(1, 41):
        await sites.add(site_id, {})
        starts = await asyncio.gather(
            *(begin(engine, site(site_id), run_id=str(n)) for n in range(3)), return_exceptions=True
        )
        assert sum(isinstance(start, str) for start in starts) == 1
        assert sum(isinstance(start, AlreadyInFlight) for start in starts) == 2


async def test_a_site_starts_again_after_a_failure_and_after_a_completion(
    engine: AsyncEngine, sites: Sites
) -> None:
    await sites.add(1, {"provision": {"webhook": "https://merchant.example/hook"}})
    first = await begin(engine, site(1))
    assert await fail(engine, site(1), first, "chain: no", teardown=False) is Outcome.REAPED
    assert await attempt_of(engine, site(1), "a") is None
    second = await begin(engine, site(1))
    assert "terminal_failure" not in await sites.metadata(1)
    assert await fail(engine, site(1), second, "chain: no", teardown=False) is Outcome.REAPED
    third = await begin(engine, site(1))
    await complete(engine, site(1), third)
    fourth = await begin(engine, site(1))
    assert (await sites.metadata(1))["health_check"] == {}
    assert len({first, second, third, fourth}) == 4
    assert await sites.ledger() == [1, 1]
    assert len(await sites.notices()) == 2


async def test_two_attempts_of_one_microsecond_have_two_names(
    engine: AsyncEngine, sites: Sites, clock: Any
) -> None:
    await clock.stand_still("2026-05-05T10:00:00.000001Z")
    await sites.add(1, {})
    first = await begin(engine, site(1))
    await fail(engine, site(1), first, "chain: no", teardown=False)
    second = await begin(engine, site(1))
    assert first == "2026-05-05T10:00:00.000001Z"
    assert second == "2026-05-05T10:00:00.000002Z"


@pytest.mark.parametrize(
    ("meanwhile", "outcome"),
    [
        ({"health_check": {"completed_at": "2026-01-01"}}, Outcome.FINISHED),
        ({"terminal_failure": {"reason": "watchdog"}}, Outcome.ALREADY_FAILED),
        ({"provision": {"started_at": "2026-01-01T00:00:00Z"}}, Outcome.RESTARTED),
        (None, Outcome.VANISHED),
    ],
)
@pytest.mark.guarantee(
    fault="a worker comes back after its attempt was failed, completed or restarted",
    holds="it writes nothing and stops",
    guard=(
        "in-flight check of the chain: without it, no NotInFlight is raised, and the late "
        "worker stamps the end of a failed site"
    ),
)
async def test_a_late_worker_writes_nothing_and_is_told_why(
    engine: AsyncEngine, sites: Sites, meanwhile: Any, outcome: Outcome
) -> None:
    await sites.add(1, {})
    attempt = await begin(engine, site(1))
    if meanwhile is None:
        await sites.run("DELETE FROM sites")
    else:
        await sites.merge(1, meanwhile)
    before = await sites.rows("SELECT metadata FROM sites")
    stamps = [
        progress(engine, site(1), attempt),
        step(engine, site(1), attempt, "dns"),
        remember_upstream(engine, site(1), attempt, "77"),
    ]
    if outcome is not Outcome.FINISHED:
        stamps.append(complete(engine, site(1), attempt))  # type: ignore[arg-type]
    for stamp in stamps:
        with pytest.raises(NotInFlight) as caught:
            await stamp
        assert caught.value.outcome is outcome
    assert await sites.rows("SELECT metadata FROM sites") == before


async def test_a_second_completion_changes_nothing(engine: AsyncEngine, sites: Sites) -> None:
    await sites.add(1, {})
    attempt = await begin(engine, site(1))
    await complete(engine, site(1), attempt)
    before = await sites.metadata(1)
    await complete(engine, site(1), attempt)
    assert await sites.metadata(1) == before


async def test_a_row_that_somebody_holds_is_busy_within_a_second(
    engine: AsyncEngine, sites: Sites
) -> None:
    await sites.add(1, {})
    attempt = await begin(engine, site(1))
    async with sites.holding("SELECT 1 FROM sites FOR UPDATE"):
        async with asyncio.timeout(1.5):
            with pytest.raises(DatabaseError) as caught:
                await step(engine, site(1), attempt, "dns")
    assert caught.value.locked


async def test_a_failure_waits_for_the_row_a_few_times_and_then_leaves_it_to_the_sweep(
    engine: AsyncEngine, sites: Sites, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("provisioning.chain.ending.FAIL_AGAIN_AFTER", (0.1,))
    await sites.add(1, {})
    attempt = await begin(engine, site(1))
    async with sites.holding("SELECT 1 FROM sites FOR UPDATE"):
        assert await fail(engine, site(1), attempt, "chain: no", teardown=False) is Outcome.BUSY
        late = asyncio.create_task(fail(engine, site(1), attempt, "chain: no", teardown=True))
        await asyncio.sleep(0.2)
    assert await late is Outcome.REAPED
    assert (await sites.metadata(1))["terminal_failure"]["source"] == "chain"


async def deadline(sites: Sites) -> Any:
    """How long after the start the deadline is, in seconds; None where there is none."""
    ((span,),) = await sites.rows(
        "SELECT iso_instant(metadata #>> '{provision,deadline}')"
        " - iso_instant(metadata #>> '{provision,started_at}') FROM sites"
    )
    return span and round(span.total_seconds())


LIMIT = timedelta(minutes=40)


async def test_an_attempt_with_a_limit_stamps_its_deadline_a_moment_after_it(
    engine: AsyncEngine, sites: Sites
) -> None:
    await sites.add(1, {})
    await begin(engine, site(1), limit=LIMIT)
    assert STAMP.fullmatch((await sites.metadata(1))["provision"]["deadline"])
    assert await deadline(sites) == 42 * 60


@pytest.mark.parametrize(
    "old", ["2025-01-15T14:00:00Z", "2025-01-15 14:00:00", "next week", "", 7, None, {"a": 1}]
)
async def test_a_deadline_that_is_past_or_unreadable_is_replaced(
    engine: AsyncEngine, sites: Sites, old: Any
) -> None:
    await sites.add(1, {"provision": {"deadline": old}})
    await begin(engine, site(1), limit=LIMIT)
    assert await deadline(sites) == 42 * 60


async def test_a_deadline_that_the_platform_set_further_ahead_stays(
    engine: AsyncEngine, sites: Sites
) -> None:
    await sites.add(1, {"provision": {"deadline": "2099-01-01T00:00:00Z"}})
    await begin(engine, site(1), limit=LIMIT)
    assert (await sites.metadata(1))["provision"]["deadline"] == "2099-01-01T00:00:00.000000Z"


async def test_a_deadline_that_an_attempt_set_itself_ends_with_it(
    engine: AsyncEngine, sites: Sites
) -> None:
    """Otherwise a limit of a day, given once, keeps the sweep off the short attempts after it."""
    await sites.add(1, {})
    first = await begin(engine, site(1), limit=timedelta(days=1))
    await fail(engine, site(1), first, "chain: no", teardown=False)
    second = await begin(engine, site(1), limit=LIMIT)
    assert await deadline(sites) == 42 * 60
    await fail(engine, site(1), second, "chain: no", teardown=False)
    await begin(engine, site(1))
    assert await deadline(sites) is None


async def test_a_deadline_that_the_platform_sets_in_mid_attempt_stays(
    engine: AsyncEngine, sites: Sites
) -> None:
    await sites.add(1, {})
    attempt = await begin(engine, site(1), limit=LIMIT)
    await sites.run(
        "UPDATE sites SET metadata = jsonb_set(metadata, '{provision,deadline}',"
        " '\"2099-01-01T00:00:00Z\"')"
    )
    await complete(engine, site(1), attempt)
    await begin(engine, site(1), limit=LIMIT)
    assert (await sites.metadata(1))["provision"]["deadline"] == "2099-01-01T00:00:00.000000Z"


async def test_without_a_limit_no_deadline_is_stamped_and_none_taken_away(
    engine: AsyncEngine, sites: Sites
) -> None:
    await sites.add(1, {"provision": {"deadline": "2099-01-01"}})
    await begin(engine, site(1))
    assert (await sites.metadata(1))["provision"]["deadline"] == "2099-01-01"


async def test_each_step_is_stamped_with_its_time_and_a_new_attempt_with_none(
    engine: AsyncEngine, sites: Sites, clock: Any
) -> None:
    await sites.add(1, {})
    attempt = await begin(engine, site(1))
    times = []
    for minute, name in enumerate(("dns", "certificate")):
        await clock.stand_still(f"2026-05-05T10:0{minute}:00Z")
        await step(engine, site(1), attempt, name)
        times.append((await sites.metadata(1))["provision"]["step_at"])
    assert times == ["2026-05-05T10:00:00.000000Z", "2026-05-05T10:01:00.000000Z"]
    await fail(engine, site(1), attempt, "chain: no", teardown=False)
    await begin(engine, site(1))
    assert not (await sites.metadata(1))["provision"].keys() & {"step", "step_at"}
