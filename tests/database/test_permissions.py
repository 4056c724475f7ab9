"""The role that the README gives is enough for a sweep, and can do nothing beyond it."""

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.database import database
from provisioning.errors import CapExceeded, DatabaseUnready
from provisioning.failures import Source, fail_terminally
from provisioning.site_state import Outcome
from provisioning.sweep.approvals import find_refusal, listed_by
from provisioning.sweep.ends import read_last_end, record_end
from provisioning.sweep.refusals import (
    close_refusals,
    prune_refusals,
    read_past,
    record_refusal,
    release_refusals,
)
from provisioning.sweep.snapshot import look, look_again
from tests.commands import ROOT
from tests.sites import Sites

THRESHOLD = timedelta(minutes=30)


def rights_of_the_readme() -> list[str]:
    block = re.search(r"```sql\n(CREATE ROLE reaper.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert block
    return [statement for statement in block[1].split(";") if statement.strip()]


@pytest.fixture
async def reaper(sites: Sites, database_url: str) -> AsyncIterator[AsyncEngine]:
    """An engine that connects as the role of the README."""
    await sites.run("DROP ROLE IF EXISTS reaper")
    for statement in rights_of_the_readme():
        await sites.run(statement)
    async with database(database_url.replace("//postgres@", "//reaper@")) as engine:
        yield engine
    await sites.run("DROP OWNED BY reaper")


async def test_the_role_can_do_all_that_a_sweep_does(reaper: AsyncEngine, sites: Sites) -> None:
    await sites.add_started(1, provision={"webhook": "https://merchant.example/hook"})
    seen = await look(reaper, THRESHOLD, 100, writes=True)
    run = uuid4()
    refused = CapExceeded("1 stuck site", found=1, cap=1)
    await record_refusal(reaper, uuid4(), refused, seen, stands=True)
    await sites.run("UPDATE sweep_refusals SET refused_at = now() - interval '31 days'")
    for _ in range(2):
        await record_refusal(reaper, run, refused, seen, stands=True)
    past = await read_past(reaper, run)
    assert past.own
    assert past.in_a_row == 0, "a refusal of a month ago is gone"
    refusal = await find_refusal(reaper, run)
    assert refusal.listed == 1
    approved = await look(reaper, THRESHOLD, 100, writes=True, among=listed_by(refusal))
    assert approved.stuck == seen.stuck
    await release_refusals(reaper)
    await close_refusals(reaper, THRESHOLD)
    await prune_refusals(reaper)
    for state in ("Refused", "Clean"):
        await record_end(reaper, "every-5-minutes", run, state)
    last = await read_last_end(reaper)
    assert last
    assert last.state == "Clean"
    (site,) = seen.stuck
    assert await look_again(reaper, site) is None
    outcome = await fail_terminally(
        reaper,
        site.site_id,
        site.attempt,
        reason="watchdog: late",
        source=Source.WATCHDOG,
        started_before=datetime.now(UTC) - THRESHOLD,
        teardown=True,
    )
    assert outcome is Outcome.REAPED
    assert len(await sites.notices()) == 2


@pytest.mark.parametrize(
    "beyond",
    [
        "UPDATE sites SET domain = 'x'",
        "UPDATE sites SET id = 2",
        "INSERT INTO sites VALUES (2, 'x', '{}')",
        "DELETE FROM sites",
        "TRUNCATE sites",
        "UPDATE terminal_failures SET reason = 'x'",
        "DELETE FROM terminal_failures",
        "DROP INDEX sites_provision_in_flight",
        "CREATE TABLE mine (n int)",
    ],
)
@pytest.mark.guarantee(
    fault="the worker's role tries what the README does not grant",
    holds="PostgreSQL refuses",
)
async def test_the_role_can_do_nothing_else(reaper: AsyncEngine, beyond: str) -> None:
    with pytest.raises(ProgrammingError, match=r"permission denied|must be owner"):
        async with reaper.begin() as transaction:
            await transaction.execute(text(beyond))


@pytest.mark.parametrize(
    "lost",
    [
        "REVOKE UPDATE (metadata) ON sites FROM reaper",
        "REVOKE INSERT ON terminal_failures FROM reaper",
        "REVOKE INSERT ON notices FROM reaper",
        "REVOKE UPDATE ON notices FROM reaper",
        "REVOKE INSERT ON sweep_refusals FROM reaper",
        "REVOKE UPDATE ON sweep_refusals FROM reaper",
        "REVOKE DELETE ON sweep_refusals FROM reaper",
        "REVOKE INSERT ON sweep_ends FROM reaper",
        "REVOKE UPDATE ON sweep_ends FROM reaper",
    ],
)
async def test_a_missing_right_to_write_is_said_and_stops_no_dry_run(
    reaper: AsyncEngine, sites: Sites, lost: str
) -> None:
    await sites.run(lost)
    with pytest.raises(DatabaseUnready, match="reaper lacks rights"):
        await look(reaper, THRESHOLD, 100, writes=True)
    await look(reaper, THRESHOLD, 100, writes=False)


@pytest.mark.parametrize(
    "table", ["sites", "terminal_failures", "notices", "sweep_refusals", "sweep_ends"]
)
async def test_a_missing_right_to_read_is_said(
    reaper: AsyncEngine, sites: Sites, table: str
) -> None:
    await sites.run(f"REVOKE SELECT ON {table} FROM reaper")
    with pytest.raises(DatabaseUnready, match="reaper lacks rights"):
        await look(reaper, THRESHOLD, 100, writes=False)
