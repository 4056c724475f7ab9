"""What our own records say of earlier refusals."""

from datetime import timedelta
from uuid import uuid4

from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.errors import CapExceeded
from provisioning.sweep.approvals import find_refusal, listed_by
from provisioning.sweep.refusals import read_past, record_refusal
from provisioning.sweep.snapshot import look
from tests.sites import Sites


async def test_of_several_refusals_that_stand_the_smallest_cap_counts_from_the_first_on(
    engine: AsyncEngine, sites: Sites
) -> None:
    """Two deployments on one database, or caps that somebody raised meanwhile."""
    await sites.add_started(1)
    seen = await look(engine, timedelta(minutes=30), 10, writes=True)
    for cap, stands in ((25, True), (4, False), (10, True), (50, True)):
        refused = CapExceeded("many", found=99, cap=cap)
        await record_refusal(engine, uuid4(), refused, seen, stands=stands)
        await sites.run("UPDATE sweep_refusals SET refused_at = refused_at - interval '1 hour'")
    past = await read_past(engine, uuid4())
    assert past.in_a_row == 4
    assert past.standing
    assert (past.standing.cap, past.standing.acts_at) == (10, 5)
    assert past.standing.since == past.since


async def test_a_run_that_refuses_again_keeps_the_list_of_its_first_time(
    engine: AsyncEngine, sites: Sites
) -> None:
    run = uuid4()
    for number in (1, 2):
        await sites.add_started(number)
        seen = await look(engine, timedelta(minutes=30), 10, writes=True)
        refused = CapExceeded("many", found=number, cap=1)
        await record_refusal(engine, run, refused, seen, stands=True)
    approved = listed_by(await find_refusal(engine, run))
    let_through = await look(engine, timedelta(minutes=30), 10, writes=True, among=approved)
    assert [sites.name(site.site_id) for site in let_through.stuck] == [1]
    assert let_through.stuck_beside == 1
