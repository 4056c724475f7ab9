"""Ids of every kind that platforms have, whatever the type of the platform's column."""

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.chain import begin, complete, fail, step
from provisioning.errors import CapExceeded, NotInFlight, UnknownSite
from provisioning.failures import Source, fail_terminally
from provisioning.schema import SiteId
from provisioning.site_state import Outcome
from provisioning.sweep.approvals import find_refusal, listed_by
from provisioning.sweep.refusals import record_refusal
from provisioning.sweep.snapshot import look
from tests.sites import Sites, stamp

KINDS: list[tuple[str, SiteId]] = [
    ("smallint", 7),
    ("integer", 2_147_483_647),
    ("bigint", 9_223_372_036_854_775_807),
    ("uuid", UUID("5eed0000-0000-4000-8000-0000b2d05e01")),
    ("text", "shop's; DROP TABLE sites --"),
    ("varchar(40)", "00042"),
    ("text", ""),
]
NO_UUID = UUID("5eed0000-0000-4000-8000-0000b2d05eff")
NO_SUCH: list[SiteId] = [0, -1, 2**63, 2**200, NO_UUID, "no-number", "42", "", "1e3", "é" * 300]


async def made_of(sites: Sites, kind: str) -> None:
    await sites.run(
        f"ALTER TABLE sites ALTER id TYPE {kind} USING CAST(CAST(id AS text) AS {kind})"
    )
    await sites.engine.dispose()


async def add(sites: Sites, site_id: SiteId) -> str:
    started = stamp()
    await sites.run(
        "INSERT INTO sites VALUES (:id, 'shop.example', jsonb_build_object('provision',"
        " jsonb_build_object('webhook', 'https://m.example', 'started_at', CAST(:at AS text))))",
        id=site_id,
        at=started,
    )
    return started


@pytest.mark.parametrize(("kind", "site_id"), KINDS)
async def test_a_site_is_found_refused_approved_failed_and_begun_again_by_its_id(
    sites: Sites, engine: AsyncEngine, kind: str, site_id: SiteId
) -> None:
    await made_of(sites, kind)
    attempt = await add(sites, site_id)
    seen = await look(engine, timedelta(minutes=30), 100, writes=True)
    (stuck,) = seen.stuck
    assert (stuck.site_id, type(stuck.site_id)) == (site_id, type(site_id))
    run = uuid4()
    await record_refusal(engine, run, CapExceeded("x", found=1, cap=0), seen, stands=True)
    listed = listed_by(await find_refusal(engine, run))
    approved = await look(engine, timedelta(minutes=30), 100, writes=True, among=listed)
    assert approved.stuck == seen.stuck
    outcome = await fail_terminally(
        engine, site_id, attempt, reason="late", source=Source.WATCHDOG, flow_run_id=run
    )
    assert outcome is Outcome.REAPED
    ((entered, body),) = await sites.rows(
        "SELECT site_id, convert_from(body, 'UTF8')::jsonb #> '{data,site_id}'"
        " FROM notices JOIN terminal_failures f ON f.id = failure_id"
    )
    assert entered == str(site_id)
    assert body == (site_id if isinstance(site_id, int) else str(site_id))
    again = await begin(engine, site_id)
    await step(engine, str(site_id), again, "dns")
    await complete(engine, site_id, again)


@pytest.mark.parametrize("kind", ["smallint", "bigint", "uuid", "text"])
@pytest.mark.parametrize("site_id", NO_SUCH, ids=lambda value: str(value)[:20])
async def test_what_no_site_is_called_is_an_unknown_site_and_no_error(
    sites: Sites, engine: AsyncEngine, kind: str, site_id: SiteId
) -> None:
    await made_of(sites, kind)
    with pytest.raises(UnknownSite):
        await begin(engine, site_id)
    with pytest.raises(NotInFlight):
        await step(engine, site_id, "x", "dns")
    assert await fail(engine, site_id, "x", "chain: x", teardown=False) is Outcome.VANISHED


async def test_an_error_of_a_trigger_is_not_taken_for_an_unknown_site(
    sites: Sites, engine: AsyncEngine
) -> None:
    attempt = await sites.add_started(1)
    await sites.run(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN PERFORM CAST('x' AS int); RETURN NEW; END $$"
    )
    await sites.run(
        "CREATE TRIGGER refuse BEFORE UPDATE ON sites FOR EACH ROW EXECUTE FUNCTION refuse()"
    )
    with pytest.raises(Exception, match="22P02"):
        await fail(engine, sites.id(1), attempt, "chain: x", teardown=False)


@pytest.mark.parametrize(("kind", "site_id"), KINDS[:5])
async def test_a_site_is_looked_up_by_the_platforms_own_key(
    sites: Sites, engine: AsyncEngine, kind: str, site_id: SiteId
) -> None:
    await made_of(sites, kind)
    await add(sites, site_id)
    await sites.run("DROP INDEX sites_provision_in_flight")
    plans: list[str] = []

    def explain(connection: Any, cursor: Any, statement: str, values: Any, *_: Any) -> None:
        if statement.lstrip().startswith("UPDATE"):
            cursor.execute("SET enable_seqscan = off")
            cursor.execute(f"EXPLAIN {statement}", values)
            plans.extend(row[0] for row in cursor.fetchall())

    event.listen(engine.sync_engine, "before_cursor_execute", explain)
    with pytest.raises(NotInFlight):
        await step(engine, site_id, "another attempt", "dns")
    assert any("Index Scan using sites_pkey" in line for line in plans), plans
