"""What a storm leaves in the database and takes of the worker's memory. G35."""

from datetime import timedelta
from uuid import uuid4

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.errors import CapExceeded
from provisioning.sweep.refusals import LISTED, record_refusal
from provisioning.sweep.snapshot import look
from tests.faults.test_bounds import Sweeping
from tests.sites import Sites

pytestmark = pytest.mark.e2e

A_DAY = 288
"""Sweeps."""


@pytest.mark.guarantee(
    fault="a day of refusals that list 10,000 sites each (G35)",
    holds="less than 64 MB, and a refusal of a month ago goes with the next one",
)
async def test_a_day_of_the_longest_refusals_is_small_and_a_month_is_the_end(
    engine: AsyncEngine, sites: Sites
) -> None:
    await sites.add_many(LISTED + 1)
    seen = await look(engine, timedelta(minutes=30), LISTED, writes=True)
    refused = CapExceeded("many", found=LISTED + 1, cap=25)
    await record_refusal(engine, uuid4(), refused, seen, stands=True)
    ((listed, size),) = await sites.rows(
        "SELECT jsonb_array_length(candidates), pg_column_size(candidates) FROM sweep_refusals"
    )
    print(f"{size:,} bytes for {listed:,} sites")
    assert listed == LISTED
    assert size * A_DAY < 64_000_000
    await sites.run("UPDATE sweep_refusals SET refused_at = now() - interval '30 days 1 second'")
    await record_refusal(engine, uuid4(), refused, seen, stands=True)
    assert [row[0] for row in await sites.rows("SELECT count(*) FROM sweep_refusals")] == [1]


@pytest.mark.guarantee(
    fault="a refusal that lists 10,000 sites (G35)",
    holds="the peak memory of the whole process is below 200 MiB",
)
async def test_the_memory_of_the_longest_refusal_is_bounded(
    database_url: str, prefect_api: str, sites: Sites
) -> None:
    await sites.add_many(2 * LISTED)
    sweep = Sweeping(PROVISION_DATABASE_URL=database_url, PREFECT_API_URL=prefect_api)
    ended = sweep.end(within=120)
    assert ended.name == "Refused"
    assert f"{2 * LISTED:,} stuck sites" in ended.message
    assert ended.peak_mib < 200
