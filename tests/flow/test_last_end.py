"""The database knows when and how it was last swept, and no run hangs on that."""

import time
from uuid import uuid4

import psycopg
import pytest

from flows import ending
from tests.flow.conftest import Sweep
from tests.flow.traces import logs_of, run_id
from tests.sites import Sites

pytestmark = pytest.mark.heart

LAST = "SELECT state, flow_run_id FROM sweep_ends"


@pytest.mark.guarantee(
    fault="a dry run or an approval, red or green, after a sweep",
    holds="the last sweep that a dashboard shows is the sweep",
    guard="recorded whatever the parameters, the first dry run is there as Rehearsed",
)
async def test_each_sweep_leaves_its_end_and_no_dry_run_and_no_approval_does(
    sweep: Sweep, sites: Sites
) -> None:
    await sweep(dry_run=True)
    assert await sites.rows(LAST) == []
    await sites.add_many(26)
    refused = await sweep()
    assert await sites.rows(LAST) == [("Refused", run_id(refused))]
    assert (await sweep(dry_run=True)).name == "Rehearsed"
    assert (await sweep(approve_refusal=str(uuid4()))).name == "Failed"
    assert (await sweep(approve_refusal=str(run_id(refused)))).name == "Reaped"
    assert await sites.rows(LAST) == [("Refused", run_id(refused))]
    clean = await sweep()
    assert await sites.rows(LAST) == [("Clean", run_id(clean))]


async def test_a_sweep_that_could_not_look_leaves_that(sweep: Sweep, sites: Sites) -> None:
    await sites.run("ALTER TABLE sweep_refusals RENAME TO away")
    failed = await sweep()
    assert await sites.rows(LAST) == [("Failed", run_id(failed))]


@pytest.mark.guarantee(
    fault="somebody holds the row of the last sweep's end",
    holds="the run ends as it would, and its log says that the database does not know",
)
async def test_what_a_sweep_did_does_not_hang_on_it(
    sweep: Sweep, sites: Sites, platform_url: str, prefect_api: str
) -> None:
    await sweep()
    await sites.add_started(1)
    with psycopg.connect(platform_url) as holder:
        holder.execute(LAST + " FOR UPDATE")
        began = time.monotonic()
        state = await sweep()
        assert time.monotonic() - began < ending.REMEMBER_SECONDS + 5
    assert state.name == "Reaped"
    said = "The database does not know of the end of this sweep"
    assert said in await logs_of(state, prefect_api, said)
