"""A refusal stands: later scheduled sweeps refuse as well, until few are stuck or a person acts."""

import re

import pytest
from prefect.client.orchestration import get_client
from prefect.states import AwaitingRetry

from tests.flow.conftest import Sweep
from tests.flow.traces import flow_run, message, nothing_written, run_again, run_id
from tests.sites import YOUNG, Sites, stamp


async def finish(sites: Sites, first: int, last: int) -> None:
    for site_id in range(first, last + 1):
        await sites.merge(site_id, {"health_check": {"completed_at": stamp(YOUNG)}})


@pytest.mark.guarantee(
    fault="an outage that hovers about the cap: 26, 25, 13, 12 stuck sites (G26)",
    holds="refused until at most half of the cap are stuck",
    guard="standing refusal: without it the second sweep reaps 25",
)
async def test_a_refusal_stands_until_half_of_the_cap(sweep: Sweep, sites: Sites) -> None:
    await sites.add_many(26)
    first = await sweep()
    assert "Sweeps act again at 12 or fewer, or when you approve it or run" in message(first)
    await finish(sites, 1, 1)
    second = await sweep()
    assert second.name == "Refused"
    said = r"25 stuck sites, and a refusal of 20\d\d-\d\d-\d\d \d\d:\d\d UTC stands: nothing was"
    assert re.match(said, message(second))
    assert "Refusal 2 in a row, since " in message(second)
    assert "Sweeps act again at 12 or fewer" in message(second)
    await finish(sites, 2, 13)
    assert (await sweep()).name == "Refused", "13 are more than half of 25"
    assert await nothing_written(sites)
    await finish(sites, 14, 14)
    assert (await sweep()).name == "Reaped"
    assert await sites.ledger() == list(range(15, 27))
    await sites.add_many(25, first=101)
    assert (await sweep()).name == "Reaped", "it is over: the full cap counts again"


async def test_a_share_stands_until_half_of_what_it_allowed(sweep: Sweep, sites: Sites) -> None:
    """20 of 20: the share allowed 10."""
    await sites.add_many(20)
    refused = await sweep(max_reap_share=50)
    assert "20 stuck sites of 20 in flight, over the share of 50 %" in message(refused)
    assert "Sweeps act again at 5 or fewer" in message(refused)
    for fresh in range(101, 121):
        await sites.add_started(fresh, stamp(YOUNG))
    await finish(sites, 1, 14)
    assert (await sweep(max_reap_share=50)).name == "Refused", "6 are more than half of 10"
    assert (await sweep()).name == "Refused", "whatever its own share"
    await finish(sites, 15, 15)
    assert (await sweep(max_reap_share=50)).name == "Reaped"
    assert await sites.ledger() == list(range(16, 21))


async def test_the_hourly_cap_makes_no_refusal_that_stands(sweep: Sweep, sites: Sites) -> None:
    await sites.add_many(5)
    assert (await sweep(max_reap_per_hour=4)).name == "Refused"
    assert (await sweep()).name == "Reaped"


async def test_what_a_person_starts_acts_under_the_full_cap(sweep: Sweep, sites: Sites) -> None:
    await sites.add_many(6)
    await sweep(max_reap_per_run=5)
    await finish(sites, 1, 1)
    by_hand = await sweep(by_hand=True, max_reap_per_run=5)
    assert by_hand.name == "Reaped"
    assert (await flow_run(by_hand)).name.startswith("sweep by hand ")
    await sites.add_many(5, first=101)
    assert (await sweep(max_reap_per_run=5)).name == "Reaped", (
        "a person acted: nothing stands any longer"
    )


async def test_a_person_who_is_refused_as_well_has_let_nothing_through(
    sweep: Sweep, sites: Sites
) -> None:
    await sites.add_many(26)
    await sweep()
    assert (await sweep(by_hand=True)).name == "Refused"
    assert (await sweep(by_hand=True, dry_run=True)).name == "Rehearsed"
    await finish(sites, 1, 1)
    rehearsed = await sweep(by_hand=True, dry_run=True)
    assert "A sweep would refuse: 25 stuck sites, and a refusal of " in message(rehearsed)
    assert (await sweep()).name == "Refused"


async def test_a_refusal_of_a_run_by_hand_holds_no_scheduled_sweep_back(
    sweep: Sweep, sites: Sites
) -> None:
    await sites.add_many(6)
    refused = await sweep(by_hand=True, max_reap_per_run=5)
    assert "The next scheduled sweep asks again" in message(refused)
    assert (await sweep()).name == "Reaped"


@pytest.mark.parametrize("by_hand", [False, True], ids=["scheduled", "by hand"])
async def test_what_retry_of_a_refused_run_does(sweep: Sweep, sites: Sites, by_hand: bool) -> None:
    """It is a person's act; refused again, the first list is what an approval lets through."""
    await sites.add_many(6)
    refused = await sweep(by_hand=by_hand, max_reap_per_run=5)
    await sites.add_many(1, first=101)
    async with get_client() as client:
        for expected in ("Refused", "Reaped"):
            await client.set_flow_run_state(run_id(refused), AwaitingRetry(), force=True)
            again = await run_again(await client.read_flow_run(run_id(refused)))
            assert again.name == expected
            if expected == "Refused":
                assert "This run refused before, at 20" in message(again)
                assert "The sweep before it did not refuse" in message(again)
                await finish(sites, 1, 2)
    assert await sites.ledger() == [*range(3, 7), 101]
    await sites.add_many(5, first=201)
    assert (await sweep(max_reap_per_run=5)).name == "Reaped"


async def test_the_approval_of_a_refused_retry_lets_its_first_list_through(
    sweep: Sweep, sites: Sites
) -> None:
    await sites.add_many(6)
    refused = await sweep(max_reap_per_run=5)
    await sites.add_many(6, first=101)
    async with get_client() as client:
        await client.set_flow_run_state(run_id(refused), AwaitingRetry(), force=True)
        await run_again(await client.read_flow_run(run_id(refused)))
    assert (await sweep(approve_refusal=str(run_id(refused)))).name == "Reaped"
    assert await sites.ledger() == list(range(1, 7))


async def test_a_sweep_that_looks_less_far_ends_no_refusal_of_one_that_looked_further(
    sweep: Sweep, sites: Sites
) -> None:
    """Two deployments on one database: the one for yesterday's sites says nothing of today's."""
    await sites.add_many(26)
    await sweep()
    await finish(sites, 1, 1)
    assert (await sweep(stuck_after_minutes=24 * 60)).name == "Clean"
    assert (await sweep()).name == "Refused"


@pytest.mark.guarantee(
    fault="230 refusals in a row (G31)",
    holds="231 in a row and the true beginning",
)
async def test_a_long_row_of_refusals_is_counted_from_our_own_records(
    sweep: Sweep, sites: Sites
) -> None:
    await sites.add_many(26)
    await sites.run(
        "INSERT INTO sweep_refusals (flow_run_id, refused_at, cap, threshold, stands, candidates)"
        " SELECT gen_random_uuid(), timestamptz '2025-01-15 14:05Z' + i * interval '5 minutes',"
        "        25, interval '30 minutes', true, '[]' FROM generate_series(0, 229) AS i"
    )
    assert "Refusal 231 in a row, since 2025-01-15 14:05 UTC" in message(await sweep())
