"""The sweep and the chain as a worker runs them, through a pooler. G10."""

import asyncio
from uuid import UUID

import psycopg
import pytest

from deployments.postgres import LocalPostgres
from provisioning.settings import settings
from tests.chain.conftest import Provision
from tests.flow.conftest import Sweep
from tests.flow.traces import message, run_id, task_runs
from tests.pooler.bouncer import Bouncer, left_on_the_servers
from tests.sites import Sites

SITE = 3_000_000_001

pytestmark = pytest.mark.e2e


@pytest.mark.guarantee(
    fault="two sweeps at once on 24 sites, through a pooler (G10)",
    holds="each site is reaped once, by one of them, and nothing of ours is left on a session",
)
async def test_two_sweeps_at_once_and_a_row_that_is_held(
    sweep: Sweep,
    sites: Sites,
    database_url: str,
    postgres: LocalPostgres,
    pooled_environment: pytest.MonkeyPatch,
) -> None:
    for number in range(24):
        await sites.add_started(SITE + number, provision={"webhook": "http://192.0.2.1/"})
    states = await asyncio.gather(sweep(), sweep())
    assert {state.name for state in states} <= {"Reaped", "Clean"}, [message(s) for s in states]
    assert await sites.ledger() == [SITE + number for number in range(24)]
    assert len(await sites.notices()) == 24
    held = await sites.add_started(SITE + 100)
    with psycopg.connect(database_url) as holder:
        holder.execute("SELECT 1 FROM sites WHERE id = %s FOR UPDATE", [SITE + 100])
        busy = await sweep()
    assert "1 busy" in message(busy), held
    name = (await sites.rows("SELECT current_database()"))[0][0]
    assert left_on_the_servers(postgres, name) == []


async def test_the_chain(
    provision: Provision, sites: Sites, pooled_environment: pytest.MonkeyPatch
) -> None:
    await sites.add(SITE, {"plan": "pro"})
    state = await provision(SITE)
    assert state.name == "Live", state.message
    assert (await sites.metadata(SITE))["health_check"]["completed_at"]


async def test_a_pooler_that_was_not_announced_fails_the_run_at_once(
    sweep: Sweep,
    pooler: Bouncer,
    database_url: str,
    prefect_api: str,
    worker_environment: pytest.MonkeyPatch,
) -> None:
    worker_environment.setenv("PROVISION_DATABASE_URL", pooler.through(database_url))
    settings.cache_clear()
    state = await sweep()
    assert state.name == "Failed"
    assert "PROVISION_DATABASE_POOLED=true" in message(state)
    (looked,) = await task_runs(state, "query_stuck_sites", 1)
    assert looked.run_count == 1
    assert isinstance(run_id(state), UUID)
