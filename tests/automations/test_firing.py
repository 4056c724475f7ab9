"""Each automation is seen firing, and seen silent while sweeps end as they should."""

import asyncio
import time
from collections.abc import Iterator
from copy import deepcopy
from itertools import cycle
from typing import Any

import pytest
import yaml
from prefect.client.orchestration import SyncPrefectClient

from deployments.automations import FILE, apply, load
from tests.automations.conftest import Receiver
from tests.automations.test_applying import CRASHED, PERSON, SILENCE
from tests.production import Production, until
from tests.sites import Sites

pytestmark = pytest.mark.e2e


def entries(*names: str, within: dict[str, int]) -> list[dict[str, Any]]:
    """Those of the file, with shorter waits."""
    chosen = [deepcopy(entry) for entry in load() if entry["name"] in names]
    for entry in chosen:
        entry["trigger"]["within"] = within.get(entry["name"], entry["trigger"]["within"])
    return chosen


async def test_the_dead_mans_switch_is_silent_while_sweeps_end_and_fires_when_they_stop(
    production: Production, client: SyncPrefectClient, alert_block: str, receiver: Receiver
) -> None:
    apply(client, entries(SILENCE, within={SILENCE: 10}), alert_block)
    endings = cycle(
        [
            ("COMPLETED", "Clean"),
            ("COMPLETED", "Reaped"),
            ("FAILED", "Refused"),
            ("FAILED", "Failed"),
        ]
    )
    alive = time.monotonic() + 24
    while time.monotonic() < alive:
        end_a_sweep(production, *next(endings))
        await asyncio.sleep(2)
    assert receiver.texts == []

    silent = time.monotonic()
    while len(receiver.texts) < 2:
        assert time.monotonic() < silent + (22 if not receiver.texts else 50), "it fires, and again"
        end_a_sweep(production, "COMPLETED", "Rehearsed")  # which is no sweep that acts
        await asyncio.sleep(1)
    assert receiver.texts[0].startswith("No sweep has ended for 15 minutes\nNobody looks")
    assert "/automations/automation/" in receiver.texts[0]


async def test_the_switch_of_each_region_hears_its_own_sweeps_alone(
    production: Production,
    client: SyncPrefectClient,
    alert_block: str,
    receiver: Receiver,
    another_region: str,
) -> None:
    (switch,) = [entry for entry in with_the_comment() if entry["name"] == REGION]
    switch["trigger"]["within"] = 10
    apply(client, [switch], alert_block)
    started = time.monotonic()
    end_a_sweep(production, "COMPLETED", "Clean")
    while time.monotonic() < started + 40:
        end_a_sweep(production, "COMPLETED", "Clean", another_region)
        await asyncio.sleep(2)
    (text,) = receiver.texts
    assert text.startswith("No sweep of every-5-minutes has ended for 15 minutes\nhttp")
    while len(receiver.texts) < 2:
        assert time.monotonic() < started + 80, "it fires for the other one, too"
        await asyncio.sleep(1)
    assert receiver.texts[1].startswith("No sweep of another-region has ended for 15 minutes\n")


REGION = "provisioning: the sweeps of one region have stopped"


def with_the_comment() -> list[dict[str, Any]]:
    """The automations with the one that the file holds in a comment."""
    head, start, comment = FILE.read_text().partition("  # - <<: *silence")
    lines = (start + comment).splitlines()
    uncommented = head + "\n".join(line.replace("  # ", "  ", 1) for line in lines)
    found: list[dict[str, Any]] = yaml.safe_load(uncommented)["automations"]
    return found


@pytest.fixture
def another_region(production: Production, client: SyncPrefectClient) -> Iterator[str]:
    """The id of a second deployment of the sweep."""
    flow_id = production.deployment["flow_id"]
    made = production.post("/deployments/", {"name": "another-region", "flow_id": flow_id})
    yield made["id"]
    production.http.delete(f"/deployments/{made['id']}").raise_for_status()
    for automation in client.read_automations_by_name(REGION):
        client.delete_automation(automation.id)


def end_a_sweep(
    production: Production, kind: str, name: str, deployment: str | None = None
) -> None:
    """A run of the sweep that ends in that state, as the server sees one."""
    deployment = deployment or production.deployment["id"]
    run = production.post(f"/deployments/{deployment}/create_flow_run", {"name": "made by a test"})
    state = {"type": kind, "name": name}
    production.post(f"/flow_runs/{run['id']}/set_state", {"state": state, "force": True})


async def test_a_refusal_and_a_lost_worker_alert_a_person_and_nothing_else_does(
    production: Production,
    platform: Sites,
    client: SyncPrefectClient,
    alert_block: str,
    receiver: Receiver,
) -> None:
    apply(client, entries(CRASHED, PERSON, SILENCE, within={CRASHED: 10}), alert_block)
    await platform.add_many(3)
    healthy = [await production.sweep(dry_run=True), await production.sweep()]
    await platform.add_many(26, first=101)
    refused = await production.sweep()
    await until(lambda: bool(receiver.texts), 20)
    (text,) = receiver.texts
    assert text == (
        f"Refused: {refused['name']}\n{refused['state']['message']}\n"
        f"{production.ui}/v2/runs/flow-run/{refused['id']}?tab=Artifacts"
    )

    async with platform.engine.begin() as holding:
        await holding.exec_driver_sql("LOCK TABLE sites IN ACCESS EXCLUSIVE MODE")
        lost = production.custom_run()
        reported = ("prefect.flow-run.heartbeat", f"prefect.flow-run.{lost}")
        await until(lambda: bool(production.events(*reported)), 40)
        production.kill_worker()
        crashed = await production.ended(lost)
    assert crashed["state_name"] == "Crashed"
    assert "stopped reporting" in crashed["state"]["message"]
    await until(lambda: len(receiver.texts) == 2, 20)
    assert receiver.texts[1].startswith(f"Crashed: {crashed['name']}\nThe run stopped reporting")

    production.start_worker()
    assert (await production.sweep())["state_name"] == "Refused", "the next sweep looks again"
    for run in (*healthy, refused):
        assert production.get(f"/flow_runs/{run['id']}")["state_name"] == run["state_name"]
