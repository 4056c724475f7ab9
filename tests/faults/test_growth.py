"""What grows without a bound elsewhere, and costs a sweep and the database little. G35."""

from datetime import timedelta
from uuid import uuid4

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.errors import CapExceeded
from provisioning.sweep.refusals import LISTED, record_refusal
from provisioning.sweep.snapshot import look
from tests.faults.test_bounds import Sweeping
from tests.sites import FIRST, Sites

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(240)]

A_DAY = 288
"""Sweeps."""

HUGE, OLD = "repeat('x', 8000000)", "'2025-01-15T14\\:00\\:00Z'"


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


@pytest.mark.guarantee(
    fault=(
        "25 stuck sites whose webhook, key, domain and step have 8 MB each, and others whose "
        "hold, deadline or start has (G35)"
    ),
    holds="Reaped, and the peak memory of the whole process is below 200 MiB",
)
async def test_texts_of_megabytes_cost_a_sweep_no_memory(
    database_url: str, prefect_api: str, sites: Sites
) -> None:
    await sites.run(
        f"INSERT INTO sites SELECT {FIRST} + i, {HUGE}, jsonb_build_object('provision',"
        f" jsonb_build_object('started_at', {OLD},"
        f" 'webhook', 'https://merchant.example/' || {HUGE}, 'step', {HUGE},"
        f" 'webhook_secret', {HUGE})) FROM generate_series(1, 25) AS i"
    )
    aside = [(OLD, "hold", HUGE), (OLD, "deadline", HUGE), (HUGE, "step", "'dns'")]
    for site_id, (started, key, value) in enumerate(aside, FIRST + 30):
        await sites.run(
            f"INSERT INTO sites VALUES ({site_id}, 'shop.example', jsonb_build_object("
            f"'provision', jsonb_build_object('started_at', {started}, '{key}', {value})))"
        )
    sweep = Sweeping(PROVISION_DATABASE_URL=database_url, PREFECT_API_URL=prefect_api)
    ended = sweep.end(within=120)
    assert ended.name == "Reaped", ended.message
    assert "25 reaped" in ended.message
    assert "with an unreadable start: 2, on hold: 1" in ended.message
    assert ended.peak_mib < 200
