"""What a storm leaves in the database and takes of the worker's memory. G35."""

import json
import os
import subprocess
import sys
from datetime import timedelta
from uuid import uuid4

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.errors import CapExceeded
from provisioning.sweep.refusals import LISTED, record_refusal
from provisioning.sweep.snapshot import look
from tests.conftest import ROOT
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
    fault="100,000 stuck sites; 25 webhook strings of 8 MB (G35)",
    holds="a run stays within 200 MiB",
)
async def test_the_memory_of_a_run_is_bounded(
    database_url: str, prefect_api: str, sites: Sites
) -> None:
    await sites.add_many(25)
    await sites.run(
        "UPDATE sites SET metadata = jsonb_set(metadata, '{provision,webhook}',"
        " to_jsonb('https://merchant.example/' || repeat('x', 8000000)))"
    )
    name, mebibytes = swept(database_url, prefect_api)
    assert name == "Reaped"
    assert mebibytes < 200
    await sites.add_many(100_000, first=101)
    name, mebibytes = swept(database_url, prefect_api)
    assert name == "Refused"
    assert mebibytes < 200


def swept(url: str, api: str) -> tuple[str, int]:
    """How a sweep ended that is a process of its own, and the most memory that it held, in MiB."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.one_sweep"],
        cwd=ROOT,
        env=os.environ | {"PROVISION_DATABASE_URL": url, "PREFECT_API_URL": api},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    ended = json.loads(done.stdout)
    print(ended)
    return ended["name"], ended["mebibytes"]
