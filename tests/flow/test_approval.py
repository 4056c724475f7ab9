"""A refusal lets through what it listed, once a person says so. F25, and the slow outage."""

import re
from datetime import timedelta
from uuid import uuid4

import pytest
from prefect.client.schemas.objects import StateType

from tests.flow.conftest import Sweep
from tests.flow.traces import flow_run, message, nothing_written, report_of, run_id
from tests.sites import YOUNG, Sites, stamp


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
    assert (await sweep()).name == "Refused"
    assert await sites.ledger() == list(range(4, 31))


async def test_an_approval_twice_reaps_once(sweep: Sweep, sites: Sites) -> None:
    await sites.add_many(26)
    refused = str(run_id(await sweep()))
    assert (await sweep(approve_refusal=refused)).name == "Reaped"
    assert (await sweep(approve_refusal=refused)).name == "Clean"
    assert len(await sites.ledger()) == 26


async def test_an_approval_is_for_the_sites_of_its_own_refusal(sweep: Sweep, sites: Sites) -> None:
    """A second refusal lists more; approving the first lets the first's through."""
    await sites.add_many(26)
    first = str(run_id(await sweep()))
    await sites.add_many(4, first=27)
    await sweep()
    assert (await sweep(approve_refusal=first)).name == "Reaped"
    assert await sites.ledger() == list(range(1, 27))


async def test_an_approval_can_be_rehearsed(sweep: Sweep, sites: Sites) -> None:
    await sites.add_many(26)
    refused = str(run_id(await sweep()))
    state = await sweep(approve_refusal=refused, dry_run=True)
    assert (state.name, await nothing_written(sites)) == ("Rehearsed", True)
    assert "26 would be reaped" in message(state)


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
    assert "The next scheduled sweep asks again" in message(second)
    report = await report_of(second, prefect_api)
    assert f"\n   {run_id(second)}\n" in report
    assert f"--param approve_refusal={run_id(second)}" in report


async def test_twenty_sites_every_five_minutes_refuse_once_the_hour_is_full(
    sweep: Sweep, sites: Sites, prefect_api: str
) -> None:
    """The ledger's clock is set back between sweeps instead of waiting for it."""
    for number in range(5):
        await sites.add_many(20, first=100 * number + 1)
        assert (await sweep()).name == "Reaped"
        await sites.run("UPDATE terminal_failures SET failed_at = failed_at - interval '5 minutes'")
    await sites.add_many(20, first=501)
    refused = await sweep()
    assert refused.name == "Refused"
    assert "20 stuck sites and 100 reaped in the last hour, over the cap of 100" in message(refused)
    report = await report_of(refused, prefect_api)
    assert "The sweeps of the last hour" in report
    assert len(re.findall(r"^\| \d\d:\d\d:\d\d \| 20 \|", report, re.MULTILINE)) == 5
    await sites.run("UPDATE terminal_failures SET failed_at = failed_at - interval '36 minutes'")
    assert (await sweep()).name == "Reaped"
    assert len(await sites.ledger()) == 120


async def test_approved_sites_do_not_use_up_the_hour(sweep: Sweep, sites: Sites) -> None:
    await sites.add_many(120)
    refused = await sweep()
    assert (await sweep(approve_refusal=str(run_id(refused)))).name == "Reaped"
    await sites.add_many(20, first=501)
    assert (await sweep()).name == "Reaped"


@pytest.mark.parametrize(("number", "near"), [(19, False), (20, True), (25, True)])
async def test_a_run_says_when_a_refusal_is_near(
    sweep: Sweep, sites: Sites, number: int, near: bool
) -> None:
    await sites.add_many(number)
    state = await sweep()
    assert (f"Near the cap of a run: {number} of 25" in message(state)) is near


async def test_a_raised_cap_lasts_for_its_run_alone(sweep: Sweep, sites: Sites) -> None:
    await sites.add_many(26)
    assert (await sweep(max_reap_per_run=26, dry_run=True)).name == "Rehearsed"
    assert (await sweep()).name == "Refused"
    assert (await sweep(max_reap_per_run=26)).name == "Reaped"
