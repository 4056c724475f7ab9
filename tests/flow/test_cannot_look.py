"""What can't be read is never "nothing there": the run fails and says what to do. F18."""

import psycopg
import pytest
from prefect.client.schemas.objects import StateType

from provisioning.session import SESSION
from provisioning.settings import settings
from tasks.query_stuck_sites import query_stuck_sites
from tests.flow.conftest import Sweep
from tests.flow.traces import logs_of, message, task_runs
from tests.sites import Sites


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
    sweep: Sweep, sites: Sites, damage: str, said: str
) -> None:
    for statement in damage.split(";"):
        await sites.run(statement)
    state = await sweep()
    assert (state.name, state.type) == ("Failed", StateType.FAILED)
    assert message(state).startswith("Could not look: ")
    assert said in message(state)
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
    sweep: Sweep, worker_environment: pytest.MonkeyPatch
) -> None:
    worker_environment.delenv("PROVISION_DATABASE_URL")
    settings.cache_clear()
    state = await sweep()
    assert state.name == "Failed"
    assert "PROVISION_DATABASE_URL" in message(state)
    assert "environment of this process" in message(state)
