"""A refusal lets through what it listed, once a person says so. F25, and the slow outage."""

import re
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from prefect.client.schemas.objects import StateType

from tests.flow.conftest import Sweep
from tests.flow.traces import events, flow_run, message, nothing_written, report_of, run_id
from tests.sites import YOUNG, Sites, site, stamp

pytestmark = pytest.mark.heart


@pytest.mark.guarantee(
    fault="new stuck sites between a refusal and its approval (F25)",
    holds="exactly what was listed is reaped",
)
async def test_exactly_what_the_refusal_listed_and_what_is_still_stuck_is_reaped(
    sweep: Sweep, sites: Sites, prefect_api: str
) -> None:
    await sites.add_many(30)
    refused = await sweep()
    await sites.add_many(26, first=101)
    await sites.merge(1, {"health_check": {"completed_at": stamp(YOUNG)}})
    await sites.merge(2, {"provision": {"started_at": stamp(timedelta(minutes=45))}})
    await sites.merge(3, {"provision": {"started_at": stamp(YOUNG)}})
    approved = await sweep(approve_refusal=str(run_id(refused)))
    assert approved.name == "Reaped"
    assert await sites.ledger() == list(range(4, 31))
    assert (await sites.metadata(4))["terminal_failure"]["source"] == "approved"
    assert f"Approves the refusal of run {run_id(refused)}" in message(approved)
    assert f"/flow-run/{run_id(refused)})" in await report_of(approved, prefect_api)
    assert (await flow_run(approved)).name.startswith(f"approval of {str(run_id(refused))[:8]}")
    assert "27 more, not approved here, are stuck" in message(approved), "one of them restarted"
    assert (await sweep()).name == "Refused"
    assert await sites.ledger() == list(range(4, 31))


async def test_an_approval_twice_reaps_once(sweep: Sweep, sites: Sites) -> None:
    await sites.add_many(6)
    refused = str(run_id(await sweep(max_reap_per_run=5)))
    assert (await sweep(approve_refusal=refused)).name == "Reaped"
    again = await sweep(approve_refusal=refused)
    assert again.name == "Clean"
    assert "None of the 6 listed is stuck any more." in message(again)
    assert len(await sites.ledger()) == 6


@pytest.mark.guarantee(
    fault="a refusal of a run with another threshold (G24)",
    holds="its approval looks with the threshold of the refusal",
)
async def test_an_approval_looks_with_the_threshold_of_its_refusal(
    sweep: Sweep, sites: Sites
) -> None:
    for site_id in range(1, 8):
        await sites.add_started(site_id, stamp(timedelta(minutes=12)))
    refused = await sweep(by_hand=True, stuck_after_minutes=10, max_reap_per_run=5)
    approved = await sweep(approve_refusal=str(run_id(refused)))
    assert "7 reaped" in message(approved)
    reason = (await sites.metadata(1))["terminal_failure"]["reason"]
    assert reason == "approved: exceeded the 10-minute threshold without completing"


async def test_an_approval_of_one_step_lets_the_others_be(sweep: Sweep, sites: Sites) -> None:
    """Of 29 at dns and 2 at certificate the two need not wait for what broke dns."""
    await sites.add_many(29)
    await sites.add_many(2, first=101, step="certificate")
    await sites.add_started(200)
    refused = str(run_id(await sweep()))
    approved = await sweep(approve_refusal=refused, approve_only_step="certificate")
    assert approved.name == "Reaped"
    assert "which listed 2 sites at step certificate" in message(approved)
    assert "30 more, not approved here, are stuck" in message(approved)
    assert await sites.ledger() == [101, 102]
    await sweep(approve_refusal=refused, approve_only_step="no step stamped")
    assert await sites.ledger() == [101, 102, 200]
    for site_id in range(1, 10):
        await sites.merge(site_id, {"health_check": {"completed_at": stamp(YOUNG)}})
    assert (await sweep()).name == "Refused", "20 at dns: the refusal stands for what was left out"
    await sweep(approve_refusal=refused)
    assert await sites.ledger() == [*range(10, 30), 101, 102, 200]


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"approve_only_step": "dnss"}, "listed no site at step dnss. It listed: dns (26)."),
        ({"approve_refusal": None, "approve_only_step": "dns"}, "needs approve_refusal"),
    ],
)
async def test_a_step_that_was_not_listed_is_said(
    sweep: Sweep, sites: Sites, parameters: dict[str, Any], said: str
) -> None:
    await sites.add_many(26)
    refused = str(run_id(await sweep()))
    state = await sweep(**({"approve_refusal": refused} | parameters))
    assert (state.name, await nothing_written(sites)) == ("Failed", True)
    assert message(state).startswith("Nothing was changed: ")
    assert said in message(state)


async def test_an_approval_that_comes_too_late_says_how_many_others_are_stuck(
    sweep: Sweep, sites: Sites
) -> None:
    await sites.add_many(30)
    refused = str(run_id(await sweep()))
    await sites.run("DELETE FROM sites")
    await sites.add_many(30, first=101)
    state = await sweep(approve_refusal=refused)
    assert state.name == "Clean"
    assert "None of the 30 listed is stuck any more; 30 others are." in message(state)


async def test_a_note_stands_in_the_ledger_the_report_and_the_events(
    sweep: Sweep, sites: Sites, prefect_api: str
) -> None:
    await sites.add_many(6, first=6_001)
    refused = str(run_id(await sweep(max_reap_per_run=5)))
    note = "the resolver was down until 15:10 | see <INC-7>"
    state = await sweep(by_hand=True, approve_refusal=refused, note=note)
    assert f"Note: {note}. 6 stuck sites found: 6 reaped" in message(state)
    assert "Note: the resolver was down until 15:10 \\| see \\<INC-7\\>" in await report_of(
        state, prefect_api
    )
    ledger = await sites.rows("SELECT DISTINCT note, by_person FROM terminal_failures")
    assert [tuple(row) for row in ledger] == [(note, True)]
    (event,) = await events(prefect_api, f"provision.site.{site(6_001)}")
    assert event["payload"]["note"] == note


async def test_an_approval_is_for_the_sites_of_its_own_refusal(sweep: Sweep, sites: Sites) -> None:
    """A second refusal lists more; approving the first lets the first's through."""
    await sites.add_many(6)
    first = str(run_id(await sweep(max_reap_per_run=5)))
    await sites.add_many(4, first=7)
    await sweep(max_reap_per_run=5)
    assert (await sweep(approve_refusal=first)).name == "Reaped"
    assert await sites.ledger() == list(range(1, 7))


async def test_an_approval_can_be_rehearsed(sweep: Sweep, sites: Sites) -> None:
    await sites.add_many(6)
    refused = str(run_id(await sweep(max_reap_per_run=5)))
    state = await sweep(approve_refusal=refused, dry_run=True)
    assert (state.name, await nothing_written(sites)) == ("Rehearsed", True)
    assert "6 would be reaped" in message(state)


async def test_what_is_no_refusal_cannot_be_approved(sweep: Sweep, sites: Sites) -> None:
    await sites.add_started(1, stamp(YOUNG))
    clean = await sweep()
    await sites.add_many(26, first=10)
    for run in (uuid4(), run_id(clean)):
        state = await sweep(approve_refusal=str(run))
        assert (state.name, state.type) == ("Failed", StateType.FAILED)
        assert message(state).startswith(f"Nothing was changed: run {run} left no refusal")
    assert await nothing_written(sites)


async def test_a_refusal_of_yesterday_cannot_be_approved(sweep: Sweep, sites: Sites) -> None:
    await sites.add_many(26)
    refused = str(run_id(await sweep()))
    await sites.run("UPDATE sweep_refusals SET refused_at = now() - interval '24 hours 1 second'")
    state = await sweep(approve_refusal=refused)
    assert state.name == "Failed"
    assert "more than 24 hours ago" in message(state)
    assert await nothing_written(sites)


async def test_a_refusal_says_how_to_let_it_through_and_how_many_there_were_in_a_row(
    sweep: Sweep, sites: Sites, prefect_api: str
) -> None:
    await sweep()
    await sites.add_many(26)
    first = await sweep()
    await sweep(dry_run=True)
    await sweep(approve_refusal=str(uuid4()))
    second = await sweep()
    assert "The sweep before it did not refuse" in message(first)
    assert "Refusal 2 in a row, since " in message(second)
    assert "Sweeps act again at 12 or fewer" in message(second)
    report = await report_of(second, prefect_api)
    assert f"\n   {run_id(second)}\n" in report
    assert f"--param approve_refusal={run_id(second)}" in report


async def test_four_sites_every_five_minutes_refuse_once_the_hour_is_full(
    sweep: Sweep, sites: Sites, prefect_api: str
) -> None:
    """The ledger's clock is set back between sweeps instead of waiting for it."""
    for number in range(5):
        await sites.add_many(4, first=100 * number + 1)
        assert (await sweep(max_reap_per_hour=20)).name == "Reaped"
        await sites.run("UPDATE terminal_failures SET failed_at = failed_at - interval '5 minutes'")
    await sites.add_many(4, first=501)
    refused = await sweep(max_reap_per_hour=20)
    assert refused.name == "Refused"
    assert "4 stuck sites and 20 reaped in the last hour, over the cap of 20" in message(refused)
    report = await report_of(refused, prefect_api)
    assert "The sweeps of the last hour" in report
    assert len(re.findall(r"^\| \d\d:\d\d:\d\d \| 4 \|", report, re.MULTILINE)) == 5
    await sites.run("UPDATE terminal_failures SET failed_at = failed_at - interval '36 minutes'")
    assert (await sweep(max_reap_per_hour=20)).name == "Reaped"
    assert len(await sites.ledger()) == 24


async def test_approved_sites_do_not_use_up_the_hour(sweep: Sweep, sites: Sites) -> None:
    await sites.add_many(6)
    refused = await sweep(max_reap_per_run=5)
    assert (await sweep(approve_refusal=str(run_id(refused)))).name == "Reaped"
    await sites.add_many(4, first=501)
    assert (await sweep(max_reap_per_hour=5)).name == "Reaped"


@pytest.mark.parametrize(("number", "near"), [(19, False), (20, True), (25, True)])
async def test_a_run_says_when_a_refusal_is_near(
    sweep: Sweep, sites: Sites, number: int, near: bool
) -> None:
    await sites.add_many(number)
    state = await sweep()
    assert (f"Near the cap of a run: {number} of 25" in message(state)) is near


async def test_a_raised_cap_lasts_for_its_run_alone(sweep: Sweep, sites: Sites) -> None:
    await sites.add_many(26)
    assert "26 would be reaped" in message(await sweep(max_reap_per_run=26, dry_run=True))
    assert (await sweep()).name == "Refused"
    assert (await sweep(by_hand=True, max_reap_per_run=26)).name == "Reaped"


async def test_what_a_person_let_through_does_not_use_up_the_hour(
    sweep: Sweep, sites: Sites
) -> None:
    await sites.add_many(6)
    by_hand = await sweep(by_hand=True, max_reap_per_run=30)
    assert by_hand.name == "Reaped"
    await sites.add_many(4, first=501)
    assert (await sweep(max_reap_per_hour=5)).name == "Reaped"
    ledger = await sites.rows("SELECT by_person, count(*) FROM terminal_failures GROUP BY 1")
    assert {row[0]: row[1] for row in ledger} == {True: 6, False: 4}
