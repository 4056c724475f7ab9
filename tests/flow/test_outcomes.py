"""What a sweep does to each site, and how the run ends.

Cases F01, F02, F05, F06, F09, F14 and F20.
"""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
import time_machine
from prefect.client.schemas.objects import StateType

from provisioning.settings import settings
from tasks.check_cap import check_cap
from tests.flow.conftest import Sweep
from tests.flow.traces import logs_of, message, nothing_written, report_of, run_id, task_runs
from tests.sites import ID, SITES, YOUNG, Sites, site, stamp

pytestmark = pytest.mark.heart


async def test_nothing_stuck_ends_clean(sweep: Sweep, sites: Sites) -> None:
    await sites.add_started(1, stamp(YOUNG))
    state = await sweep()
    assert (state.name, state.type) == ("Clean", StateType.COMPLETED)
    database = settings().database_shown
    assert message(state) == (
        "Nothing was stuck. In flight when it looked: 1, with an unreadable start: 0. "
        f"Database: {database}."
    )


async def test_stuck_sites_are_reaped_and_the_others_are_not(sweep: Sweep, sites: Sites) -> None:
    await sites.add_started(1)
    await sites.add_started(2, stamp(YOUNG))
    await sites.add_started(3, "")
    await sites.add_started(4, health_check={"completed_at": stamp()})
    await sites.add_started(5, terminal_failure={"reason": "the chain's"})
    await sites.add_started(6, terminal_failure=None, health_check={"completed_at": None})
    state = await sweep()
    assert (state.name, state.type) == ("Reaped", StateType.COMPLETED)
    assert await sites.ledger() == [1, 6]
    mark = (await sites.metadata(1))["terminal_failure"]
    assert mark["reason"] == "watchdog: exceeded the 30-minute threshold without completing"
    assert mark["source"] == "watchdog"
    assert mark["flow_run_id"] == str(run_id(state))


@pytest.mark.parametrize(
    ("number", "name", "reaped"), [(25, "Reaped", 25), (26, "Refused", 0), (27, "Refused", 0)]
)
@pytest.mark.guarantee(
    fault="25, 26 and 27 stuck sites (F09)",
    holds="the cap acts; one more refuses with nothing changed",
)
async def test_exactly_the_cap_acts_and_one_more_refuses(
    sweep: Sweep, sites: Sites, number: int, name: str, reaped: int
) -> None:
    await sites.add_many(number)
    state = await sweep()
    assert state.name == name
    assert len(await sites.failed()) == len(await sites.ledger()) == reaped


async def test_five_thousand_are_refused_with_nothing_written(
    sweep: Sweep, sites: Sites, prefect_api: str
) -> None:
    await sites.add_many(4_960)
    await sites.add_many(40, first=5_000, step="certificate")
    state = await sweep()
    assert (state.name, state.type) == ("Refused", StateType.FAILED)
    assert "5,000 stuck sites, over the cap of 25 a run: nothing was changed" in message(state)
    assert "4,960 of 5,000 stopped at step dns" in message(state)
    assert await nothing_written(sites)
    report = await report_of(state, prefect_api)
    assert len(report.encode()) < 200_000
    assert report.count("4,960 of 5,000 stopped at step dns") == 1


@pytest.mark.guarantee(
    fault="the write of one site raises (F05, F06)",
    holds="the others are reaped, and the run is red",
)
async def test_a_write_that_raises_errors_that_site_and_the_others_go_on(
    sweep: Sweep, sites: Sites, prefect_api: str
) -> None:
    for site_id in range(1, 6):
        await sites.add_started(site_id)
    await sites.run(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'the platform says no'; END $$"
    )
    await sites.run(
        f"CREATE TRIGGER refuse BEFORE UPDATE ON {SITES} FOR EACH ROW"
        f" WHEN (OLD.{ID} = '{site(3)}') EXECUTE FUNCTION refuse()"
    )
    state = await sweep()
    assert (state.name, state.type) == ("Incomplete", StateType.FAILED)
    assert "4 reaped, 1 errored" in message(state)
    assert await sites.ledger() == [1, 2, 4, 5]
    report = await report_of(state, prefect_api)
    assert "raised error P0001" in report
    assert "the platform says no" not in report, "its words may hold a row"
    logs = await logs_of(state, prefect_api, f"site {site(3)} (shop-3.example): errored")
    assert f"site {site(3)} (shop-3.example): errored" in logs


async def test_a_site_that_finishes_between_the_query_and_the_recheck_is_not_touched(
    sweep: Sweep, sites: Sites, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The re-check looks at the row as it is, not at the list."""
    for site_id in range(1, 5):
        await sites.add_started(site_id)
    looked = check_cap

    async def meanwhile(*arguments: Any) -> None:
        await looked(*arguments)
        await sites.merge(1, {"health_check": {"completed_at": stamp(YOUNG)}})
        await sites.merge(2, {"provision": {"started_at": stamp(YOUNG)}})
        await sites.merge(3, {"terminal_failure": {"reason": "the chain's"}})
        await sites.run("DELETE FROM sites WHERE id = :id", id=site(4))

    monkeypatch.setattr("flows.reap_stuck_provisions.check_cap", meanwhile)
    state = await sweep()
    assert state.name == "Clean"
    assert message(state).startswith(
        "4 stuck sites found: 1 finished meanwhile, 1 failed by somebody else meanwhile, "
        "1 restarted meanwhile, 1 deleted meanwhile."
    )
    assert await sites.ledger() == []
    assert len(await task_runs(state, "refresh_site", 4)) == 4
    assert await task_runs(state, "fail_site_terminally", 0) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"health_check": {"completed_at": "2025-01-15T15:30:00Z"}}, "1 finished meanwhile"),
        ({"provision": {"started_at": "2025-01-15T15:29:00Z"}}, "1 restarted meanwhile"),
        (None, "1 busy, left to the next sweep"),
    ],
    ids=["F01 completed", "F02 restarted", "F01 held longer than the bound"],
)
async def test_a_sweep_that_has_to_wait_for_the_row_decides_on_what_it_finds_then(
    sweep: Sweep, sites: Sites, platform_url: str, change: Any, said: str
) -> None:
    await sites.add_started(1, stamp(timedelta(minutes=45)))
    async with await psycopg.AsyncConnection.connect(platform_url) as chain:
        await chain.execute(
            "UPDATE sites SET metadata = metadata || %s WHERE id = %s",
            [json.dumps(change or {}), site(1)],
        )
        sweeping = asyncio.create_task(sweep())
        if change:
            await sites.wait_for_a_lock()
            await chain.commit()
        state = await sweeping
    assert state.name == "Clean"
    assert said in message(state)
    assert await nothing_written(sites)


async def test_two_sweeps_at_the_same_moment_fail_each_site_once(
    sweep: Sweep, sites: Sites
) -> None:
    for site_id in range(20):
        await sites.add_started(site_id, provision={"webhook": f"http://127.0.0.1:1/{site_id}"})
    states = await asyncio.gather(sweep(), sweep())
    assert {state.name for state in states} <= {"Reaped", "Clean"}
    assert await sites.ledger() == list(range(20))
    assert len(await sites.notices()) == 20


async def test_a_dry_run_writes_nothing(sweep: Sweep, sites: Sites, prefect_api: str) -> None:
    await sites.add_started(1)
    await sites.add_started(2)
    state = await sweep(dry_run=True)
    assert (state.name, state.type) == ("Rehearsed", StateType.COMPLETED)
    assert "nothing was changed. 2 stuck sites found: 2 would be reaped" in message(state)
    assert await nothing_written(sites)
    assert "would be reaped" in await report_of(state, prefect_api)
    assert len(await task_runs(state, "refresh_site", 2)) == 2


@pytest.mark.guarantee(
    fault="a dry run over the cap",
    holds="ends Rehearsed, says that a sweep would refuse, and leaves no refusal behind",
)
async def test_a_dry_run_over_the_cap_is_rehearsed_and_leaves_no_refusal(
    sweep: Sweep, sites: Sites, prefect_api: str
) -> None:
    await sites.add_many(26)
    state = await sweep(dry_run=True)
    assert (state.name, state.type) == ("Rehearsed", StateType.COMPLETED)
    assert message(state).startswith(
        "Dry run, nothing was changed. A sweep would refuse: 26 stuck sites, over the cap of 25"
    )
    report = await report_of(state, prefect_api)
    assert "## Rehearsed" in report
    assert "26 | " in report
    assert "approve_refusal" not in report
    assert await sites.rows("TABLE sweep_refusals") == []
    assert "The sweep before it did not refuse" in message(await sweep())


@pytest.mark.guarantee(
    fault="a worker whose clock is a day off (F20)",
    holds="Failed, and whose clock the Prefect server's agrees with; it decides about no site",
    guard="with a tolerance of 50 days, Reaped",
)
async def test_a_worker_whose_clock_is_a_day_off_looks_at_nothing(
    sweep: Sweep, sites: Sites
) -> None:
    await sites.add_started(1)
    for wrong in (timedelta(days=1), -timedelta(days=1)):
        with time_machine.travel(datetime.now(UTC) + wrong, tick=True):
            state = await sweep()
        assert (state.name, state.type) == ("Failed", StateType.FAILED)
        assert ("behind" if wrong > timedelta(0) else "ahead of") in message(state)
        assert "agrees with the database's, so look at the worker's" in message(state)
    assert await nothing_written(sites)


async def test_the_databases_clock_alone_counts(sweep: Sweep, sites: Sites) -> None:
    """A worker that is off by less goes on, by the database's clock."""
    await sites.add_started(1, stamp(timedelta(minutes=28)))
    await sites.add_started(2, stamp(timedelta(minutes=31)))
    await sites.add_started(3, stamp(-timedelta(days=1)))
    for wrong in (timedelta(minutes=4), -timedelta(minutes=4)):
        with time_machine.travel(datetime.now(UTC) + wrong, tick=True):
            state = await sweep(dry_run=True)
        assert "1 stuck site found: 1 would be reaped" in message(state)
        assert "with an unreadable start: 1" in message(state)
