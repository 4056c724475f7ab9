"""The flow from end to end: to live, to each way of failing, and to each way of being overtaken."""

import asyncio
import json
from typing import Any
from uuid import UUID

import psycopg
import pytest
from prefect import get_client
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.flow_engine import run_flow
from prefect.states import Cancelling, Crashed, Scheduled
from sqlalchemy.ext.asyncio import AsyncEngine

from flows.provision_site import provision_site
from provisioning.chain import begin, claim_upstream, fail, remember_upstream, step
from provisioning.chain.upstream import Claim
from provisioning.failures import Source, fail_terminally
from tasks.fail_stopped_run import fail_stopped_run
from tests.chain.conftest import BOTH_VERSIONS, Clock, Provision
from tests.chain.forge_server import LOST, TOKEN, ForgeServer, Spoilt
from tests.sites import SITES, YOUNG, Sites, site, stamp

pytestmark = pytest.mark.heart

HOOK = {"provision": {"webhook": "https://merchant.example/hook"}}


def is_(state: State[Any], name: str, kind: StateType) -> bool:
    return (state.name, state.type) == (name, kind)


@BOTH_VERSIONS
async def test_a_site_is_provisioned_to_live(
    provision: Provision, sites: Sites, forge: ForgeServer
) -> None:
    await sites.add(1, {"plan": "pro"} | HOOK)
    forge.first_statuses.extend(["installing", "installing"])
    forge.health.extend([502, 404])
    state = await provision()
    assert is_(state, "Live", StateType.COMPLETED), state.message
    after = await sites.metadata(1)
    assert after["plan"] == "pro"
    assert after["provision"]["step"] == "health-check"
    assert after["provision"]["upstream_id"] == "100"
    assert after["health_check"]["completed_at"]
    assert await sites.failed() == []
    assert await sites.ledger() == []
    assert forge.asked == [
        "GET sites",
        "POST sites",
        *["GET 100"] * 3,
        *["GET shop-1.example"] * 3,
    ]


async def test_a_site_that_is_never_installed_is_failed_at_the_bound_and_once(
    provision: Provision, sites: Sites, forge: ForgeServer, clock: Clock
) -> None:
    await sites.add(1, HOOK)
    forge.status = "installing"
    await clock.run_ahead(120)
    state = await provision(give_up_after_minutes=2)
    assert is_(state, "Failed", StateType.FAILED)
    mark = (await sites.metadata(1))["terminal_failure"]
    assert mark["reason"] == "chain: The site was not ready in time."
    ((reason,),) = await sites.rows("SELECT detail FROM terminal_failures")
    assert reason.startswith("chain: gave up 2 min after the start: the upstream says 'installing'")
    assert state.message == f"{reason}."
    assert await sites.ledger() == [1]
    assert await sites.notices() == [("webhook", "https://merchant.example/hook")]


async def test_an_unknown_status_is_waited_for_and_reported_as_it_is(
    provision: Provision, sites: Sites, forge: ForgeServer, clock: Clock
) -> None:
    await sites.add(1, {})
    forge.status = "reticulating splines"
    await clock.run_ahead(120)
    state = await provision(give_up_after_minutes=1)
    assert state.message
    assert "'reticulating splines'" in state.message


async def test_a_lost_answer_and_a_busy_upstream_make_one_site(
    provision: Provision, sites: Sites, forge: ForgeServer
) -> None:
    await sites.add(1, {})
    forge.spoil("POST", LOST)
    forge.spoil("GET", Spoilt(503, {"retry-after": "0"}), Spoilt(429), Spoilt(502))
    state = await provision()
    assert is_(state, "Live", StateType.COMPLETED), state.message
    assert len(forge.sites) == forge.creates() == 1


async def test_a_refusal_fails_the_site_at_once_with_the_upstreams_words(
    provision: Provision, sites: Sites, forge: ForgeServer
) -> None:
    await sites.add(1, {})
    forge.spoil("POST", Spoilt(422, body='{"domain": ["Not allowed here."]}'))
    state = await provision()
    assert is_(state, "Failed", StateType.FAILED)
    ((detail,),) = await sites.rows("SELECT detail FROM terminal_failures")
    assert "Not allowed here" in detail
    assert "Not allowed here" not in json.dumps(await sites.metadata(1))


async def test_whatever_a_step_throws_fails_the_site(
    provision: Provision, sites: Sites, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sites.add(1, {})

    async def broken(*_arguments: Any, **_options: Any) -> None:
        raise KeyError("\x00 surprise")

    monkeypatch.setattr("tasks.check_health.require_healthy", broken)
    state = await provision()
    assert is_(state, "Failed", StateType.FAILED)
    mark = (await sites.metadata(1))["terminal_failure"]
    assert mark["reason"] == "chain: Setting up the site failed."
    ((detail,),) = await sites.rows("SELECT detail FROM terminal_failures")
    assert detail.startswith("chain: KeyError:")
    assert mark["source"] == "chain"
    assert UUID(mark["flow_run_id"])


async def test_a_teardown_is_owed_where_the_operator_takes_them(
    provision: Provision,
    sites: Sites,
    forge: ForgeServer,
    upstream_environment: pytest.MonkeyPatch,
) -> None:
    upstream_environment.setenv("PROVISION_TEARDOWN_URL", "http://127.0.0.1:9/teardown")
    await sites.add(1, {})
    forge.spoil("POST", Spoilt(400))
    await provision()
    assert await sites.notices() == [("teardown", None)]


async def test_the_merchant_is_told_at_once_and_once(
    provision: Provision,
    sites: Sites,
    forge: ForgeServer,
    upstream_environment: pytest.MonkeyPatch,
) -> None:
    upstream_environment.setenv("PROVISION_WEBHOOK_ALLOW_PRIVATE_NETWORKS", "true")
    await sites.add(1, {"provision": {"webhook": f"{forge.url}/hook/1"}})
    await sites.add(2, {"provision": {"webhook": f"{forge.url}/hook/2"}})
    await begin_and_fail(sites, 2)
    forge.spoil("POST", Spoilt(400))
    assert (await provision()).name == "Failed"
    assert [asked for asked in forge.asked if asked.startswith("POST")] == ["POST sites", "POST 1"]
    assert await sites.rows("SELECT count(*) FROM notices WHERE delivered_at IS NOT NULL") == [(1,)]


async def begin_and_fail(sites: Sites, site_id: int) -> None:
    attempt = await begin(sites.engine, site(site_id))
    await fail(sites.engine, site(site_id), attempt, "chain: x", teardown=False)


async def test_notices_that_can_not_be_looked_up_are_left_to_the_sweep(
    provision: Provision, sites: Sites, forge: ForgeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_arguments: Any) -> None:
        raise ConnectionError

    monkeypatch.setattr("flows.provision_site.list_owed", broken)
    await sites.add(1, HOOK)
    forge.spoil("POST", Spoilt(400))
    state = await provision()
    assert state.message
    assert "answered 400" in state.message
    assert len(await sites.notices()) == 1


async def test_a_site_that_failed_starts_again_and_each_attempt_has_its_own_ledger_row(
    provision: Provision, sites: Sites, forge: ForgeServer
) -> None:
    await sites.add(1, HOOK)
    forge.spoil("POST", Spoilt(400), Spoilt(400))
    await provision()
    await provision()
    assert await sites.ledger() == [1, 1]
    assert len(await sites.notices()) == 2
    state = await provision()
    assert is_(state, "Live", StateType.COMPLETED)
    assert await sites.failed() == []


async def test_a_double_click_starts_one_chain(
    provision: Provision, sites: Sites, forge: ForgeServer
) -> None:
    await sites.add(1, {})
    states = await asyncio.gather(provision(), provision())
    assert {state.name for state in states} == {"Live", "Declined"}
    declined = next(state for state in states if state.name == "Declined")
    assert declined.type is StateType.CANCELLED
    assert declined.message
    assert declined.message.startswith("Nothing was started: the attempt of 2")
    assert forge.creates() == 1


@pytest.mark.parametrize(
    ("site_id", "said"), [(404, f"no site {site(404)}"), (1, "not a JSON object")]
)
async def test_a_site_that_can_not_begin_is_red_and_says_why(
    provision: Provision, sites: Sites, site_id: int, said: str
) -> None:
    await sites.add(1, {"provision": "yes"})
    state = await provision(site_id)
    assert is_(state, "Failed", StateType.FAILED)
    assert state.message
    assert said in state.message
    assert await sites.ledger() == []


async def test_without_an_upstream_nothing_is_started(
    provision: Provision, sites: Sites, upstream_environment: pytest.MonkeyPatch
) -> None:
    upstream_environment.delenv("PROVISION_UPSTREAM_TOKEN")
    await sites.add(1, {})
    state = await provision()
    assert is_(state, "Failed", StateType.FAILED)
    assert state.message
    assert "PROVISION_UPSTREAM_TOKEN" in state.message
    assert await sites.metadata(1) == {}


@pytest.mark.parametrize(
    ("overtake", "why"),
    [
        ("swept", "was failed meanwhile"),
        ("restarted", "was followed by a newer one"),
        ("deleted", "lost its site"),
    ],
)
async def test_a_late_worker_stops_and_says_why_and_is_neither_red_nor_green(
    provision: Provision,
    sites: Sites,
    engine: AsyncEngine,
    forge: ForgeServer,
    overtake: str,
    why: str,
) -> None:
    await sites.add(1, HOOK)
    forge.status = "installing"
    run = asyncio.create_task(provision())
    await forge.until_asked("GET 100")
    attempt = (await sites.metadata(1))["provision"]["started_at"]
    if overtake == "deleted":
        await sites.run("DELETE FROM sites")
    elif overtake == "restarted":
        await sites.merge(1, {"provision": {"started_at": stamp(YOUNG), "run_id": "another"}})
    else:
        await fail_terminally(
            engine, site(1), attempt, reason="watchdog: x", source=Source.WATCHDOG
        )
    before = await sites.rows("SELECT metadata FROM sites")
    forge.status = "installed"
    state = await run
    assert is_(state, "Superseded", StateType.CANCELLED)
    assert state.message
    assert why in state.message
    assert await sites.rows("SELECT metadata FROM sites") == before
    assert len(await sites.ledger()) == (overtake == "swept")


async def test_an_older_attempt_that_throws_fails_nothing_of_the_newer_one(
    provision: Provision, sites: Sites, engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sites.add(1, {})

    async def overtaken(*_arguments: Any, **_options: Any) -> None:
        attempt = (await sites.metadata(1))["provision"]["started_at"]
        await fail_terminally(
            engine, site(1), attempt, reason="watchdog: x", source=Source.WATCHDOG
        )
        await begin(engine, site(1), run_id="another")
        raise RuntimeError("much too late")

    monkeypatch.setattr("tasks.check_health.require_healthy", overtaken)
    state = await provision()
    assert is_(state, "Superseded", StateType.CANCELLED)
    assert state.message
    assert "much too late" in state.message
    assert await sites.failed() == []


async def test_a_row_that_somebody_holds_for_a_while_delays_a_step_and_fails_nothing(
    provision: Provision, sites: Sites, database_url: str, forge: ForgeServer
) -> None:
    await sites.add(1, {})
    forge.first_statuses.extend(["installing"] * 3)
    run = asyncio.create_task(provision())
    await forge.until_asked("GET 100")
    with psycopg.connect(database_url) as holder:
        holder.execute(f"SELECT 1 FROM {SITES} FOR UPDATE".encode())
        await asyncio.sleep(1.5)
    state = await run
    assert is_(state, "Live", StateType.COMPLETED), state.message


async def retry(run_id: UUID) -> State[Any]:
    """What the UI's Retry does to a run, and a worker afterwards."""
    async with get_client() as client:
        await client.set_flow_run_state(run_id, Scheduled(name="AwaitingRetry"), force=True)
        run = await client.read_flow_run(run_id)
    started: Any = run_flow(
        provision_site, flow_run=run, parameters=run.parameters, return_type="state"
    )
    state: State[Any] = await started
    return state


async def test_a_task_that_lost_its_connection_goes_on_with_its_wait(
    provision: Provision, sites: Sites, database_url: str, forge: ForgeServer
) -> None:
    await sites.add(1, {})
    forge.status = "installing"
    run = asyncio.create_task(provision())
    await forge.until_asked("GET 100")
    attempt = (await sites.metadata(1))["provision"]["started_at"]
    with psycopg.connect(database_url, autocommit=True) as administrator:
        administrator.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    await sites.engine.dispose()
    forge.status = "installed"
    state = await run
    assert is_(state, "Live", StateType.COMPLETED), state.message
    assert (await sites.metadata(1))["provision"]["started_at"] == attempt
    assert forge.creates() == 1


async def a_run(site_id: int = 1) -> FlowRun:
    async with get_client() as client:
        return await client.create_flow_run(provision_site, parameters={"site_id": site(site_id)})


async def test_a_retry_goes_on_with_its_attempt_and_makes_no_second_site(
    provision: Provision, sites: Sites, engine: AsyncEngine, forge: ForgeServer
) -> None:
    run = await a_run()
    await sites.add(1, {})
    attempt = await begin(engine, site(1), run_id=str(run.id))
    await step(engine, site(1), attempt, "request")
    await claim_upstream(engine, Claim(str(site(1)), attempt, "shop-1.example"), site(1))
    await remember_upstream(engine, site(1), attempt, "55")
    forge.sites.append({"id": 55, "name": "shop-1.example"})
    state = await retry(run.id)
    assert is_(state, "Live", StateType.COMPLETED), state.message
    assert (await sites.metadata(1))["provision"]["started_at"] == attempt
    assert forge.creates() == 0


async def test_a_retry_long_after_the_start_does_not_begin_to_wait_anew(
    provision: Provision, sites: Sites, forge: ForgeServer
) -> None:
    run = await a_run()
    started = stamp()
    claim = {"site": str(site(1)), "attempt": started, "domain": "shop-1.example"}
    provision_ = {"run_id": str(run.id), "upstream_id": "55", "upstream_by": claim}
    await sites.add_started(1, started, provision=provision_)
    forge.sites.append({"id": 55, "name": "shop-1.example"})
    forge.status = "installing"
    state = await retry(run.id)
    assert is_(state, "Failed", StateType.FAILED)
    assert state.message
    assert "gave up 1 h 30 min after the start" in state.message
    assert forge.asked == ["GET 55"]


async def test_a_retry_of_a_failed_run_is_a_new_attempt(
    provision: Provision, sites: Sites, forge: ForgeServer
) -> None:
    run = await a_run()
    await sites.add(1, {})
    forge.spoil("POST", Spoilt(400))
    assert (await retry(run.id)).name == "Failed"
    first = (await sites.metadata(1))["provision"]["started_at"]
    state = await retry(run.id)
    assert is_(state, "Live", StateType.COMPLETED), state.message
    assert (await sites.metadata(1))["provision"]["started_at"] != first
    assert await sites.failed() == []


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (Crashed(), "chain: the run crashed before the site was live"),
        (Cancelling(), "chain: the run was cancelled before the site was live"),
    ],
)
async def test_a_run_that_was_stopped_from_outside_fails_its_attempt_once(
    provision: Provision, sites: Sites, state: State[Any], reason: str
) -> None:
    run = await a_run()
    await sites.add_started(1, provision={"run_id": str(run.id)} | HOOK["provision"])
    for _ in range(2):
        await fail_stopped_run(flow=provision_site, flow_run=run, state=state)
    mark = (await sites.metadata(1))["terminal_failure"]
    assert mark["reason"] == "chain: Setting up the site was stopped."
    assert await sites.rows("SELECT detail FROM terminal_failures") == [(reason,)]
    assert await sites.ledger() == [1]
    assert len(await sites.notices()) == 1


async def test_a_run_that_was_stopped_fails_nothing_of_another_run(
    provision: Provision, sites: Sites
) -> None:
    run = await a_run()
    await sites.add_started(1, provision={"run_id": "another"})
    await fail_stopped_run(flow=provision_site, flow_run=run, state=Crashed())
    assert await sites.failed() == []


async def test_a_run_that_is_killed_by_its_event_loop_fails_its_attempt(
    provision: Provision, sites: Sites, forge: ForgeServer
) -> None:
    await sites.add(1, {})
    forge.status = "installing"
    run = asyncio.create_task(provision())
    await forge.until_asked("GET 100")
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    mark = (await sites.metadata(1))["terminal_failure"]
    assert mark["reason"] == "chain: Setting up the site was stopped."
    ((detail,),) = await sites.rows("SELECT detail FROM terminal_failures")
    assert detail == "chain: the run crashed before the site was live"


async def test_the_parameters_have_limits_and_help_in_the_form() -> None:
    schema = provision_site.parameters.model_dump()["properties"]
    assert schema["give_up_after_minutes"]["minimum"] == 1
    assert "database's clock" in schema["give_up_after_minutes"]["description"]
    assert {form["type"] for form in schema["site_id"]["anyOf"]} == {"integer", "string"}
    assert "The id of the site" in schema["site_id"]["description"]


async def test_the_token_reaches_no_state_or_log(
    provision: Provision,
    sites: Sites,
    forge: ForgeServer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await sites.add(1, {})
    forge.spoil("POST", Spoilt(400, body=f"Authorization: Bearer {TOKEN}"))
    state = await provision()
    assert state.message
    assert "Bearer [token]" in state.message
    assert TOKEN not in f"{state!r} {caplog.text} {await sites.metadata(1)}"
