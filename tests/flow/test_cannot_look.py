"""What can't be read is never "nothing there": the run fails and says what to do. F18."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import StateType

from flows.reap_stuck_provisions import reap_stuck_provisions
from flows.ui.neighbours import neighbours
from provisioning.session import SESSION
from provisioning.settings import settings
from provisioning.text import cell
from tasks.query_stuck_sites import query_stuck_sites
from tests.flow.conftest import Sweep
from tests.flow.traces import logs_of, message, report_of, task_runs
from tests.sites import Sites

NOW = datetime.now(UTC).replace(microsecond=0)


async def test_a_lost_connection_is_tried_again(
    sweep: Sweep, sites: Sites, prefect_api: str
) -> None:
    """The query's backend is terminated in the middle of it, as a restart would."""
    await sites.add_started(1)
    await sites.run("CREATE TABLE blows (n int)")
    await sites.run(
        """
        CREATE FUNCTION blow() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
          IF nextval('fuse') = 1 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF;
          RETURN NEW;
        END $$
        """
    )
    await sites.run("CREATE SEQUENCE fuse")
    await sites.run(
        "CREATE TRIGGER blow BEFORE UPDATE ON sites FOR EACH ROW EXECUTE FUNCTION blow()"
    )
    state = await sweep()
    assert state.name == "Reaped"
    assert await sites.ledger() == [1]
    (failing,) = await task_runs(state, "fail_site_terminally", 1)
    assert failing.run_count == 2


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("DROP TABLE sites CASCADE", "no table `sites`"),
        ("ALTER TABLE sites RENAME COLUMN metadata TO meta", "no table `sites` with a column"),
        ("DROP TABLE notices", "migrations have not run"),
        ("DROP INDEX sites_provision_in_flight", "index sites_provision_in_flight is missing"),
        (
            "UPDATE pg_index SET indisvalid = false"
            " WHERE indexrelid = 'sites_provision_in_flight'::regclass",
            "is invalid",
        ),
        (
            "DROP INDEX sites_provision_in_flight;"
            "ALTER TABLE sites ALTER COLUMN metadata TYPE json USING metadata::json",
            "of type json",
        ),
    ],
)
@pytest.mark.guarantee(
    fault="a missing table, column or index (F18)",
    holds="Failed with what to do, never Clean",
)
async def test_a_database_that_cannot_be_swept_fails_the_run_with_what_to_do(
    sweep: Sweep, sites: Sites, prefect_api: str, damage: str, said: str
) -> None:
    for statement in damage.split(";"):
        await sites.run(statement)
    state = await sweep()
    assert (state.name, state.type) == ("Failed", StateType.FAILED)
    assert message(state).startswith("Could not look: ")
    assert said in message(state)
    database = settings().database_shown
    assert message(state).endswith(f" Database: {database}.")
    report = await report_of(state, prefect_api)
    assert cell(said) in report
    assert report.count("### What to do") == 1
    (looked,) = await task_runs(state, "query_stuck_sites", 1)
    assert looked.run_count == 1


async def test_a_query_that_times_out_fails_the_run(
    sweep: Sweep, sites: Sites, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SESSION, "statement_timeout", "300ms")
    async with await psycopg.AsyncConnection.connect(database_url) as blocker:
        await blocker.execute("LOCK TABLE sites IN ACCESS EXCLUSIVE MODE")
        state = await sweep()
    assert (state.name, state.type) == ("Failed", StateType.FAILED)
    assert "a statement was cancelled" in message(state)
    assert "Look for locks" in message(state)


async def test_a_database_that_is_away_fails_the_run_after_retries_and_shows_no_password(
    sweep: Sweep,
    worker_environment: pytest.MonkeyPatch,
    prefect_api: str,
) -> None:
    worker_environment.setenv(
        "PROVISION_DATABASE_URL", "postgresql://reaper:hunter2@127.0.0.1:1/shop"
    )
    settings.cache_clear()
    at_once = query_stuck_sites.with_options(retry_delay_seconds=0)
    worker_environment.setattr("flows.reap_stuck_provisions.query_stuck_sites", at_once)
    state = await sweep()
    assert (state.name, state.type) == ("Failed", StateType.FAILED)
    assert "Could not look: nobody listens" in message(state)
    (looked,) = await task_runs(state, "query_stuck_sites", 1)
    assert looked.run_count == 5
    assert "hunter2" not in message(state) + await logs_of(state, prefect_api, "Could not look")


async def test_without_a_database_url_the_run_says_what_to_set(
    sweep: Sweep, worker_environment: pytest.MonkeyPatch, prefect_api: str
) -> None:
    worker_environment.delenv("PROVISION_DATABASE_URL")
    settings.cache_clear()
    state = await sweep()
    assert state.name == "Failed"
    assert "PROVISION_DATABASE_URL" in message(state)
    assert "environment of this process" in message(state)
    assert cell("PROVISION_DATABASE_URL") in await report_of(state, prefect_api)


async def test_an_approval_of_a_run_that_left_no_refusal_has_a_report(
    sweep: Sweep, sites: Sites, prefect_api: str
) -> None:
    report = await report_of(await sweep(approve_refusal=str(uuid4())), prefect_api)
    assert "left no refusal in this database" in report
    assert "Nothing tries an approval again by itself" in report


@pytest.mark.guarantee(
    fault="a sweep whose time is up, or that raises what nobody expected",
    holds="it has a report as well, which says that what it did stays done",
)
@pytest.mark.parametrize("ended", ["TimedOut", "Failed"])
async def test_a_run_that_was_stopped_in_the_middle_has_a_report(
    sweep: Sweep, sites: Sites, prefect_api: str, monkeypatch: pytest.MonkeyPatch, ended: str
) -> None:
    async def hangs(*_: Any) -> None:
        if ended == "Failed":
            raise KeyError("nobody expected this")
        await asyncio.sleep(30)

    monkeypatch.setattr("flows.reap_stuck_provisions.read_refusals", hangs)
    monkeypatch.setattr(reap_stuck_provisions, "timeout_seconds", 3)
    state = await sweep()
    assert state.name == ended
    report = await report_of(state, prefect_api)
    assert report.startswith(f"## {ended}\n\nFlow run ")
    assert report.count("What it did stays done") == 1


async def test_a_report_says_when_a_sweep_could_look_last_and_when_the_next_is_due(
    sweep: Sweep, sites: Sites, prefect_api: str
) -> None:
    async with get_client() as client:
        flow = await client.create_flow_from_name(f"neighbours {uuid4()}")
        deployment = await client.create_deployment(flow, "every-5-minutes")
        due = NOW + timedelta(minutes=5)
        for type_, name, details in [
            ("COMPLETED", "Clean", {}),
            ("COMPLETED", "Rehearsed", {}),
            ("FAILED", "Failed", {}),
            ("SCHEDULED", "Scheduled", {"scheduled_time": due.isoformat()}),
        ]:
            state = {"type": type_, "name": name, "state_details": details}
            of = {"flow_id": str(flow), "deployment_id": str(deployment)}
            await client.request("POST", "/flow_runs/", json={**of, "state": state})
        around = await neighbours(deployment)
        await client.delete_deployment(deployment)
    assert around.ended == "Clean"
    assert around.looked_at is not None
    assert around.looked_at >= NOW
    assert around.next_at == due
