"""Through Prefect: one task run a notice, named for what it came to, and no secret in any of it."""

import asyncio
import json
from typing import Any
from uuid import UUID

import pytest
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterId,
    LogFilter,
    LogFilterFlowRunId,
)
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run

from flows.ui.deliveries import deliver_owed
from provisioning.database import database
from provisioning.errors import DatabaseError
from provisioning.outbox import delivery
from provisioning.outbox.delivery import deliver
from provisioning.outbox.dispatcher import Deliveries
from provisioning.settings import settings
from tasks import deliver_notice
from tests.outbox.owing import SECRET, TEARDOWN_SECRET, Owing
from tests.outbox.receivers import Receiver, answering
from tests.outbox.test_secrets import assert_no_secret, secret_url
from tests.sites import site

pytestmark = pytest.mark.usefixtures("prefect_api")


@flow(persist_result=False)
async def deliver_only() -> tuple[str, Deliveries]:
    async with database(settings().database_url.get_secret_value()) as engine:
        return flow_run.id, await deliver_owed(engine)


async def what_the_server_keeps(run_id: str) -> tuple[dict[str, State[Any]], list[str], str]:
    """The final state of each task run by name, the log lines, and everything as one text."""
    this_run = FlowRunFilter(id=FlowRunFilterId(any_=[UUID(run_id)]))
    these_logs = LogFilter(flow_run_id=LogFilterFlowRunId(any_=[UUID(run_id)]))
    async with get_client() as client:
        for _ in range(100):  # both arrive at the server a moment after the run has ended
            task_runs = await client.read_task_runs(flow_run_filter=this_run)
            logs = await client.read_logs(these_logs, limit=200)
            ended = all(run.state and run.state.is_final() for run in task_runs)
            if ended and any("Notices: " in log.message for log in logs):
                break
            await asyncio.sleep(0.1)
        flow_run = await client.read_flow_run(UUID(run_id))
    everything = json.dumps([r.model_dump(mode="json") for r in [flow_run, *task_runs, *logs]])
    states = {run.name: run.state for run in task_runs if run.state}
    return states, [log.message for log in logs], everything


async def test_each_notice_is_a_task_run_that_says_what_became_of_it(
    owing: Owing, receiver: Receiver, platform: Receiver, worker_environment: pytest.MonkeyPatch
) -> None:
    worker_environment.setenv("PROVISION_WEBHOOK_ALLOW_PRIVATE_NETWORKS", "true")
    worker_environment.setenv("PROVISION_WEBHOOK_SECRET", SECRET)
    worker_environment.setenv("PROVISION_TEARDOWN_SECRET", TEARDOWN_SECRET)
    worker_environment.setenv("PROVISION_TEARDOWN_URL", platform.url("/t0ken-path"))
    platform.default = answering(500)
    await owing.fail(1, secret_url(f"127.0.0.1:{receiver.port}"), teardown=True)
    await owing.fail(2, "https:/t0ken-path")

    run_id, deliveries = await deliver_only()

    assert str(deliveries) == (
        "1 notice delivered, 1 notice still owed (1 teardown), 1 notice given up"
    )
    states, lines, everything = await what_the_server_keeps(run_id)
    assert {name: state.name for name, state in states.items()} == {
        "list owed notices": "Completed",
        f"deliver webhook for site {site(1)} (shop-1.example)": "Delivered",
        f"deliver teardown for site {site(1)} (shop-1.example)": "Still owed",
        f"deliver webhook for site {site(2)} (shop-2.example)": "Given up",
    }
    assert all(state.is_completed() for state in states.values())
    assert (
        f"teardown for site {site(1)} (shop-1.example) to http://127.0.0.1:"
        " still owed: answered 500" in lines
    )
    assert not [line for line in lines if "unsigned" in line]
    assert_no_secret(everything)


async def test_an_unsigned_round_says_so_once(
    owing: Owing, receiver: Receiver, worker_environment: pytest.MonkeyPatch
) -> None:
    worker_environment.setenv("PROVISION_WEBHOOK_ALLOW_PRIVATE_NETWORKS", "true")
    for site_id in range(1, 4):
        await owing.fail(site_id, receiver.url())
    run_id, deliveries = await deliver_only()
    assert len(deliveries.delivered) == 3
    _, lines, _ = await what_the_server_keeps(run_id)
    assert [line for line in lines if "unsigned" in line] == [
        "Notices are sent unsigned: PROVISION_WEBHOOK_SECRET is not set."
    ]


async def test_a_database_that_fails_in_passing_is_asked_again(
    owing: Owing,
    receiver: Receiver,
    worker_environment: pytest.MonkeyPatch,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker_environment.setenv("PROVISION_WEBHOOK_ALLOW_PRIVATE_NETWORKS", "true")
    tries = []

    async def failing_once(*arguments: Any) -> Any:
        tries.append(arguments)
        if len(tries) == 1:
            raise DatabaseError("gone", transient=True)
        return await deliver(*arguments)

    monkeypatch.setattr(deliver_notice, "deliver", failing_once)
    await owing.fail(1, receiver.url())
    _, deliveries = await deliver_only()
    assert len(tries) == 2
    assert len(deliveries.delivered) == 1


async def test_a_database_that_stays_away_leaves_the_notice_owed(
    owing: Owing,
    receiver: Receiver,
    worker_environment: pytest.MonkeyPatch,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker_environment.setenv("PROVISION_WEBHOOK_ALLOW_PRIVATE_NETWORKS", "true")

    async def failing(*_: Any) -> None:
        raise ValueError("a fault that does not pass")

    monkeypatch.setattr(delivery, "record", failing)
    await owing.fail(1, receiver.url())
    run_id, deliveries = await deliver_only()
    assert deliveries.owed[0].last_error == "no result was recorded (ValueError)"
    states, _, _ = await what_the_server_keeps(run_id)
    assert states[f"deliver webhook for site {site(1)} (shop-1.example)"].is_failed()
