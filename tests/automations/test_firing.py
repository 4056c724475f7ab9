"""Each automation is seen firing, and seen silent while sweeps end as they should."""

import asyncio
import time
from collections.abc import Iterator
from copy import deepcopy
from datetime import datetime
from itertools import cycle
from typing import Any

import pytest
from prefect.client.orchestration import SyncPrefectClient

from deployments.automations import apply, load
from tests.automations.conftest import Receiver
from tests.automations.test_applying import CRASHED, LOST, OVER, PERSON, SILENCE
from tests.flow.conftest import Sweep
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
    while time.monotonic() < silent + 50:
        for name in ("Rehearsed", "Crashed"):
            kind = "COMPLETED" if name == "Rehearsed" else "CRASHED"
            end_a_sweep(production, kind, name)  # which are no sweeps that looked for us
        await asyncio.sleep(2)
    assert len(receiver.texts) == 1, "once a silence"
    text = receiver.texts
    assert text[0].startswith("No sweep of every-5-minutes has ended for 15 minutes\nNobody looks")
    assert "/automations/automation/" in text[0]


async def test_the_switch_of_each_region_hears_its_own_sweeps_alone(
    production: Production,
    client: SyncPrefectClient,
    alert_block: str,
    receiver: Receiver,
    another_region: str,
) -> None:
    apply(client, entries(SILENCE, within={SILENCE: 10}), alert_block)
    started = time.monotonic()
    end_a_sweep(production, "COMPLETED", "Clean")
    while time.monotonic() < started + 40:
        end_a_sweep(production, "COMPLETED", "Clean", another_region)
        await asyncio.sleep(2)
    assert len(receiver.texts) == 1, receiver.texts
    (text,) = receiver.texts
    assert text.startswith("No sweep of every-5-minutes has ended for 15 minutes\n")
    while len(receiver.texts) < 2:
        assert time.monotonic() < started + 80, "it fires for the other one, too"
        await asyncio.sleep(1)
    assert receiver.texts[1].startswith("No sweep of another-region has ended for 15 minutes\n")


@pytest.fixture
def another_region(production: Production) -> Iterator[str]:
    """The id of a second deployment of the sweep."""
    flow_id = production.deployment["flow_id"]
    made = production.post("/deployments/", {"name": "another-region", "flow_id": flow_id})
    yield made["id"]
    production.http.delete(f"/deployments/{made['id']}").raise_for_status()


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
    names = (LOST, PERSON, CRASHED, OVER, SILENCE)
    apply(client, entries(*names, within={LOST: 10}), alert_block)
    await platform.add_many(3)
    healthy = [await production.sweep(dry_run=True), await production.sweep()]
    await platform.add_many(26, first=101)
    refused = await production.sweep()
    await until(lambda: bool(receiver.texts), 20)
    assert len(receiver.texts) == 1, receiver.texts
    (text,) = receiver.texts
    assert text == (
        f"Refused: {refused['name']}\n{refused['state']['message']}\n"
        f"{datetime.fromisoformat(refused['state']['timestamp']).isoformat()}\n"
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
    again = await production.sweep()
    assert again["state_name"] == "Refused", "the next sweep looks again"
    await until(lambda: len(receiver.texts) == 3, 20)
    assert receiver.texts[2].startswith(f"Over: Crashed. {again['name']} ended Refused\n")
    for run in (*healthy, refused):
        assert production.get(f"/flow_runs/{run['id']}")["state_name"] == run["state_name"]


@pytest.mark.guarantee(
    fault="an outage of 40 sweeps with a second kind of trouble in it (G30)",
    holds="one alert and one all-clear for each kind, at a real webhook block",
)
async def test_an_outage_of_forty_sweeps_is_one_alert_and_one_all_clear(
    sweep: Sweep,
    sites: Sites,
    client: SyncPrefectClient,
    alert_block: str,
    receiver: Receiver,
) -> None:
    apply(client, entries(PERSON, within={}), alert_block)
    assert (await sweep()).name == "Clean"  # ends what other tests left open
    await asyncio.sleep(6)
    receiver.texts.clear()
    await sites.add_many(26)
    for number in range(40):
        if number == 20:
            await sites.run("ALTER TABLE sweep_refusals RENAME TO away")
            assert (await sweep()).name == "Failed"
            await sites.run("ALTER TABLE away RENAME TO sweep_refusals")
        assert (await sweep()).name == "Refused"
        if number in (0, 20):
            await asyncio.sleep(6)  # five minutes, for the server that stores events every few
    await sites.run("DELETE FROM sites")
    assert (await sweep()).name == "Clean"
    await until(lambda: len(receiver.texts) >= 4, 20)
    await asyncio.sleep(6)
    subjects = [text.split("\n")[0] for text in receiver.texts]
    kinds = [" ".join(subject.split()[:2]) for subject in subjects]
    assert kinds == ["Refused: sweep", "Failed: sweep", "Over: Failed", "Over: Refused"]
    assert "26 stuck sites, over the cap of 25 a run" in receiver.texts[0]
