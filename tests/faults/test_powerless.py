"""A sweep that can't act, that loses the database, or whose time is up, is not green: whole runs.

G07, G16, G17, G28, G29, G32.
"""

import json
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from prefect.client.schemas.objects import StateType
from sqlalchemy.ext.asyncio import AsyncEngine

from flows.sites import settle_all
from provisioning.sweep.snapshot import Candidate
from tasks.refresh_site import refresh_site
from tests.database.test_acting import RESTORES, SWALLOWS, UNDOES
from tests.flow.conftest import Sweep
from tests.flow.traces import logs_of, message, nothing_written, report_of, run_id
from tests.outbox.receivers import Receiver
from tests.sites import Sites, site, stamp


@pytest.mark.parametrize(
    ("ties", "said"),
    [
        (SWALLOWS, "the UPDATE changed no row although the site is still stuck"),
        (RESTORES, "not there in what the UPDATE itself returned"),
        (UNDOES, "the mark was set and is gone again"),
    ],
    ids=["returns NULL", "restores", "undoes"],
)
@pytest.mark.guarantee(
    fault="a trigger that swallows, restores or undoes the mark (G07)",
    holds="Incomplete, and the report says what to look for",
    guard="without the look at what the UPDATE returns, a restored mark is not told as one",
)
async def test_a_trigger_that_ties_the_hands_makes_the_run_incomplete(
    sweep: Sweep, sites: Sites, prefect_api: str, ties: list[str], said: str
) -> None:
    await sites.add_started(1)
    for statement in ties:
        await sites.run(statement)
    state = await sweep()
    assert (state.name, state.type) == ("Incomplete", StateType.FAILED)
    assert "1 errored" in message(state)
    assert said in await report_of(state, prefect_api)


@pytest.mark.guarantee(
    fault="a row that somebody holds over three sweeps (G07)",
    holds="busy, and Incomplete from twice the threshold on; the report says who holds it",
    guard="without the rule of twice the threshold, Clean for ever",
)
async def test_a_row_that_stays_held_makes_the_run_incomplete_in_the_end(
    sweep: Sweep, sites: Sites, prefect_api: str, database_url: str
) -> None:
    await sites.add_started(1)
    async with await psycopg.AsyncConnection.connect(database_url) as platform:
        await platform.execute("SELECT 1 FROM sites WHERE id = %s FOR UPDATE", [site(1)])
        for minutes in (80, 60):
            state = await sweep(stuck_after_minutes=minutes)
            assert state.name == "Clean"
            assert "1 busy, left to the next sweep" in message(state)
        state = await sweep()
        pid = platform.info.backend_pid
    assert (state.name, state.type) == ("Incomplete", StateType.FAILED)
    assert "1 busy site stuck for more than 1 h" in message(state)
    assert f"process {pid} of role postgres holds it" in await report_of(state, prefect_api)
    assert await nothing_written(sites)


@pytest.mark.guarantee(
    fault="the platform takes the mark out after each sweep",
    holds="said from the first time on, and Incomplete from the second",
    guard="without the rule, Reaped a third time",
)
async def test_a_mark_that_is_lost_again_and_again_is_not_green_for_ever(
    sweep: Sweep, sites: Sites
) -> None:
    await sites.add_started(1)
    names = []
    for _ in range(3):
        state = await sweep()
        names.append(state.name)
        await sites.run("UPDATE sites SET metadata = metadata - 'terminal_failure'")
    assert names == ["Reaped", "Reaped", "Incomplete"]
    assert "1 mark of an earlier sweep gone and set again" in message(state)
    assert await sites.ledger() == [1]


@pytest.mark.guarantee(
    fault="a platform whose new stamps nobody can read: 40 of 40 (G16), encoded twice (G17)",
    holds="Failed, and they are listed; nothing is reaped",
    guard="without `blindness`, Reaped: the one readable of 41",
)
async def test_a_sweep_that_can_read_few_of_the_stamps_is_not_green(
    sweep: Sweep, sites: Sites, prefect_api: str
) -> None:
    await sites.add_started(1)
    for site_id in range(2, 41):
        await sites.add_started(site_id, "Mi 15. Jan 14:00")
    await sites.add(41, json.dumps({"provision": {"started_at": stamp()}}))
    state = await sweep()
    assert (state.name, state.type) == ("Failed", StateType.FAILED)
    assert message(state).startswith("Could not look: 40 of 41 sites in flight can't be read")
    report = await report_of(state, prefect_api)
    assert "Mi 15. Jan 14:00" in report
    assert "encoded twice" in report
    assert await nothing_written(sites)


@pytest.mark.guarantee(
    fault="the run's time is up in the middle (G32)",
    holds="no further site is begun; the rest is not reached, Incomplete; deliveries and report",
    guard="without the look at the time, all 26 reaped",
)
async def test_a_run_whose_time_is_up_delivers_reports_and_says_what_it_did_not_reach(
    sweep: Sweep,
    sites: Sites,
    prefect_api: str,
    merchant: Receiver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await sites.add_many(26, first=2)
    refused = await sweep()
    assert refused.name == "Refused"
    await sites.run(
        "UPDATE sites SET metadata = jsonb_set(metadata, '{provision,webhook}',"
        " to_jsonb(CAST(:url AS text))) WHERE id = :id",
        id=site(2),
        url=merchant.url(),
    )
    asked = 0

    def left() -> float:
        nonlocal asked
        asked += 1
        return 1.0 if asked <= 3 else 0.0

    async def briefly(*arguments: Any, time_left: Any) -> Any:
        return await settle_all(*arguments, time_left=left)

    monkeypatch.setattr("flows.reap_stuck_provisions.settle_all", briefly)
    state = await sweep(approve_refusal=str(run_id(refused)))
    assert (state.name, state.type) == ("Incomplete", StateType.FAILED)
    assert "3 reaped, 23 not reached. Approve the same run again to go on." in message(state)
    assert "1 notice delivered" in message(state)
    assert len(merchant.requests) == 1
    assert "not reached: the run's time was up" in await report_of(state, prefect_api)
    monkeypatch.setattr("flows.reap_stuck_provisions.settle_all", settle_all)
    state = await sweep(approve_refusal=str(run_id(refused)))
    assert state.name == "Reaped"
    assert await sites.ledger() == list(range(2, 28))


@pytest.mark.guarantee(
    fault="26 sites on hold, one before its deadline, three others old (G28, G29)",
    holds="three reaped; the others listed with their value",
    guard="without `~HELD`, 29 are stuck and refused; without the deadline, four reaped",
)
async def test_holds_and_deadlines_are_kept_and_listed(
    sweep: Sweep, sites: Sites, prefect_api: str
) -> None:
    for site_id in range(1, 27):
        await sites.add_started(site_id, provision={"hold": "support looks at it"})
    later = stamp(-timedelta(hours=2))
    await sites.add_started(30, provision={"deadline": later})
    for site_id in (40, 41, 42):
        await sites.add_started(site_id)
    state = await sweep()
    assert state.name == "Reaped"
    assert await sites.ledger() == [40, 41, 42]
    assert "on hold: 26, before a deadline: 1" in message(state)
    report = await report_of(state, prefect_api)
    assert report.count("support looks at it") == 26
    assert f"| {site(30)} | shop-30.example | {later} |" in report
    assert "not reaped, on hold: support looks at it" in await logs_of(state, prefect_api, "hold")


@pytest.mark.parametrize(
    ("aside", "said"),
    [
        ({"hold": "support looks at it"}, "somebody put it on hold since the sweep looked"),
        ({"deadline": "2126-01-01T00:00:00Z"}, "it was given a deadline since the sweep looked"),
    ],
)
@pytest.mark.guarantee(
    fault="an old site is put on hold, or given a deadline, between the look and the mark",
    holds="left alone, said, and green: nobody holds its row",
    guard="without the condition in the UPDATE, reaped; without the second look, Incomplete",
)
async def test_a_hold_that_comes_after_the_look_is_kept_and_is_no_trouble(
    sweep: Sweep,
    sites: Sites,
    prefect_api: str,
    monkeypatch: pytest.MonkeyPatch,
    aside: dict[str, str],
    said: str,
) -> None:
    await sites.add_started(1)

    async def looked_at_again(engine: AsyncEngine, found: Candidate) -> Any:
        outcome = await refresh_site(engine, found)
        now = await sites.metadata(1)
        await sites.merge(1, {"provision": now["provision"] | aside})
        return outcome

    monkeypatch.setattr("flows.sites.refresh_site", looked_at_again)
    state = await sweep()
    assert (state.name, await nothing_written(sites)) == ("Clean", True)
    assert f"busy, left to the next sweep: {said}" in await report_of(state, prefect_api)
