"""What this program exists for, from end to end: real worker, real server, real kill -9."""

import asyncio
import os
import sys
from pathlib import Path
from subprocess import TimeoutExpired

import pytest
import yaml
from prefect.client.schemas.objects import StateType
from prefect.states import Cancelling

from deployments.processes import run_command
from tests.chain.forge_server import ForgeServer
from tests.chain.workers import POOL, ROOT, Workers, kill_run, kill_with_its_runs
from tests.sites import Sites, site

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

SWEEP = f"reap-stuck-provisions/{POOL}"
CHAIN = f"provision-site/{POOL}"


@pytest.fixture(scope="session")
def deployed(prefect_api: str, tmp_path_factory: pytest.TempPathFactory) -> Workers:
    """The deployments of prefect.yaml in a pool of their own: other tests have workers too."""
    logs = tmp_path_factory.mktemp("workers")
    project = yaml.safe_load((ROOT / "prefect.yaml").read_text())
    for deployment in project["deployments"]:
        deployment |= {"name": POOL, "schedules": []}
        deployment["work_pool"]["name"] = POOL
    (logs / "prefect.yaml").write_text(yaml.safe_dump(project))
    for name, *arguments in (
        ("pool", "work-pool", "create", POOL, "--type", "process", "--overwrite"),
        ("deploy", "deploy", "--all", "--prefect-file", str(logs / "prefect.yaml")),
    ):
        run_command(
            (sys.executable, "-m", "prefect", "--no-prompt", *arguments),
            folder=ROOT,
            log=logs / f"{name}.log",
            environment=os.environ | {"PREFECT_API_URL": prefect_api},
            timeout=60,
        )
    return Workers(prefect_api, Path(logs))


@pytest.fixture
def workers(deployed: Workers, upstream_environment: pytest.MonkeyPatch) -> Workers:
    """Workers that provision the test's database through the test's upstream."""
    upstream_environment.setenv("PROVISION_WEBHOOK_ALLOW_PRIVATE_NETWORKS", "true")
    return deployed


async def merchant(sites: Sites, forge: ForgeServer, site_id: int) -> None:
    """A site that nobody has provisioned yet, whose merchant wants to be told."""
    await sites.add(site_id, {"provision": {"webhook": f"{forge.url}/hook/{site_id}"}})


async def hang_at_the_step_after_the_request(sites: Sites, site_id: int) -> None:
    """From now on the site's chain gets no answer when it enters its next step."""
    await sites.run(
        "CREATE FUNCTION hang() RETURNS trigger LANGUAGE plpgsql AS"
        " $f$ BEGIN PERFORM pg_sleep(25); RETURN new; END $f$"
    )
    await sites.run(
        "CREATE TRIGGER hang BEFORE UPDATE ON sites FOR EACH ROW"
        f" WHEN (new.id = {site(site_id)} AND new.metadata #>> '{{provision,step}}' = 'install')"
        " EXECUTE FUNCTION hang()"
    )


HANGING = "FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'"


IN_THE_WAIT = "metadata #>> '{provision,step}' = 'install'"


async def until_found(sites: Sites, query: str) -> None:
    """Wait until the query finds something."""
    for _ in range(600):
        if await sites.rows(query):
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"never found: {query}")


async def nothing_hangs_any_more(sites: Sites) -> None:
    """What the dead chain had asked of the database is over."""
    await sites.rows(f"SELECT pg_terminate_backend(pid) {HANGING}")
    await sites.run("DROP TRIGGER hang ON sites")


async def the_threshold_passes(sites: Sites) -> None:
    """Nothing happens for 40 minutes: the start stamps and the deadlines are that much older."""
    for stamp in ("started_at", "deadline"):
        await sites.run(
            f"UPDATE sites SET metadata = jsonb_set(metadata, '{{provision,{stamp}}}', to_jsonb("
            f" to_char((iso_instant(metadata #>> '{{provision,{stamp}}}') - interval '40 minutes')"
            "  AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24\\:MI\\:SS.US\"Z\"')))"
            f" WHERE metadata #>> '{{provision,{stamp}}}' IS NOT NULL"
        )


def told(forge: ForgeServer) -> list[str]:
    """The webhooks that came in."""
    return sorted(asked for asked in forge.asked if asked in ("POST 1", "POST 2"))


async def in_flight(sites: Sites) -> list[int]:
    found = await sites.rows(
        "SELECT id FROM sites WHERE metadata #>> '{provision,started_at}' IS NOT NULL"
        " AND metadata #>> '{terminal_failure}' IS NULL"
        " AND metadata #>> '{health_check,completed_at}' IS NULL"
    )
    return sorted(sites.name(row[0]) for row in found)


@pytest.mark.long
@pytest.mark.guarantee(
    fault="a chain killed together with its worker",
    holds="the next sweep fails its attempt",
    guard="its own deadline two days ahead: the next sweep leaves it alone",
)
async def test_a_chain_that_dies_with_its_worker_is_failed_by_the_next_sweep(
    workers: Workers, sites: Sites, forge: ForgeServer
) -> None:
    forge.status = "installing"
    await merchant(sites, forge, 1)
    await merchant(sites, forge, 2)
    await hang_at_the_step_after_the_request(sites, 2)

    with workers.worker("first") as worker:
        waiting = await workers.start(CHAIN, site_id=site(1))
        between_steps = await workers.start(CHAIN, site_id=site(2))
        await until_found(sites, f"SELECT pid {HANGING}")
        await until_found(sites, f"SELECT id FROM sites WHERE id = {site(1)} AND {IN_THE_WAIT}")
        assert kill_with_its_runs(worker) >= 2

    await asyncio.sleep(2)
    for run in (waiting, between_steps):
        assert (await workers.read(run)).state_type is StateType.RUNNING, "nothing throws"
    assert await in_flight(sites) == [1, 2], "and nothing ends"
    assert (await sites.metadata(1))["provision"]["step"] == "install"
    assert (await sites.metadata(2))["provision"]["step"] == "request"
    assert await sites.ledger() == []

    await nothing_hangs_any_more(sites)
    await the_threshold_passes(sites)

    with workers.worker("second") as worker:
        await workers.end_of(await workers.start(SWEEP), worker)
        for site_id in (1, 2):
            mark = (await sites.metadata(site_id))["terminal_failure"]
            assert mark["reason"].startswith("watchdog: exceeded the 30-minute threshold")
            sweep = await workers.read(mark["flow_run_id"])
            assert sweep.state
            assert sweep.state.name == "Reaped"
        assert await sites.ledger() == [1, 2]
        assert told(forge) == ["POST 1", "POST 2"], "each merchant, once"
        assert await in_flight(sites) == []

        forge.status = "installed"
        again = await workers.end_of(await workers.start(CHAIN, site_id=site(1)), worker)
        assert again.name == "Live", again.message
        assert await sites.failed() == [2]
        assert len(forge.sites) == 2, "the new attempt found what the dead one had asked for"


@pytest.mark.guarantee(
    fault="a worker stopped by a deploy (SIGTERM) in the middle of a chain",
    holds="its runs end without a word, and the next sweep fails what they left in flight",
    guard="its own deadline two days ahead: the sweep ends Clean, with one before a deadline",
)
async def test_a_chain_whose_worker_a_deploy_stops_is_failed_by_the_next_sweep(
    workers: Workers, sites: Sites, forge: ForgeServer
) -> None:
    """Prefect 3.9.1's worker kills its runs then, or goes on and is killed; no hook is called."""
    forge.status = "installing"
    await merchant(sites, forge, 1)
    with workers.worker("before the deploy") as worker:
        run = await workers.start(CHAIN, site_id=site(1))
        await forge.until_asked("GET 100")
        worker.process.terminate()
        try:
            await asyncio.to_thread(worker.process.wait, 30)
        except TimeoutExpired:  # seen twice: then a service manager kills it
            kill_with_its_runs(worker)
    assert (await workers.read(run)).state_type is StateType.RUNNING, "nothing throws"
    assert await in_flight(sites) == [1], "and nothing ends"

    await the_threshold_passes(sites)

    with workers.worker("after the deploy") as worker:
        swept = await workers.end_of(await workers.start(SWEEP), worker)
        assert swept.name == "Reaped", swept.message
    assert await sites.ledger() == [1]
    assert told(forge) == ["POST 1"]


async def test_a_chain_that_dies_while_its_worker_lives_is_failed_at_once(
    workers: Workers, sites: Sites, forge: ForgeServer
) -> None:
    forge.status = "installing"
    await merchant(sites, forge, 1)
    await merchant(sites, forge, 2)
    with workers.worker("only") as worker:
        killed = await workers.start(CHAIN, site_id=site(1))
        cancelled = await workers.start(CHAIN, site_id=site(2))
        await forge.until_asked("GET 100", "GET 101")
        kill_run(worker, killed)
        await workers.set_state(cancelled, Cancelling())
        assert (await workers.end_of(killed, worker)).type is StateType.CRASHED
        assert (await workers.end_of(cancelled, worker)).type is StateType.CANCELLED
        await until_found(sites, "SELECT 1 FROM terminal_failures HAVING count(*) = 2")
    assert await sites.rows("SELECT detail FROM terminal_failures ORDER BY site_id") == [
        ("chain: the run crashed before the site was live",),
        ("chain: the run was cancelled before the site was live",),
    ]
    assert told(forge) == [], "their webhooks are owed, and the next sweep sends them"
    assert len(await sites.notices()) == 2
