"""Each automation is seen firing, and seen silent while sweeps end as they should."""

import asyncio
import time
from copy import deepcopy
from datetime import datetime
from itertools import cycle
from typing import Any
from uuid import uuid4

import pytest
from prefect.client.orchestration import SyncPrefectClient

from deployments.automations import apply, load
from tests.automations.conftest import End, Receiver, end_a_sweep
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


@pytest.mark.long
@pytest.mark.guarantee(
    fault="the sweeps of one deployment stop, while those of another go on",
    holds="one alert, which names the silent one; no dry run, approval or crash takes the place of "
    "a sweep",
    guard="dry runs tell of no end: with that taken out no alert comes",
)
async def test_the_switch_tells_once_of_a_silence_and_of_each_deployment_alone(
    production: Production,
    client: SyncPrefectClient,
    alert_block: str,
    receiver: Receiver,
    regions: tuple[str, str],
) -> None:
    apply(client, entries(SILENCE, within={SILENCE: 20}), alert_block)
    north, south = regions
    ends: cycle[End] = cycle(
        [
            ("COMPLETED", "Clean", {}),
            ("COMPLETED", "Reaped", {}),
            ("FAILED", "Refused", {}),
            ("FAILED", "Failed", {}),
        ]
    )
    no_ends: cycle[End] = cycle(
        [
            ("COMPLETED", "Rehearsed", {"dry_run": True}),
            ("FAILED", "Failed", {"dry_run": True}),
            ("FAILED", "Failed", {"approve_refusal": str(uuid4())}),
            ("CRASHED", "Crashed", {}),
        ]
    )
    started = time.monotonic()
    while time.monotonic() < started + 25:
        for region in regions:
            await end_a_sweep(production, region, next(ends))
        await asyncio.sleep(1.5)
    assert receiver.texts == [], "both are alive"

    while time.monotonic() < started + 75:
        await end_a_sweep(production, north, next(no_ends))
        await end_a_sweep(production, south, next(ends))
        await asyncio.sleep(1.5)
    silent = "No sweep of {} has ended for 15 minutes\nNobody looks for stuck"
    (text,) = receiver.texts
    assert text.startswith(silent.format("north")), "once a silence"
    assert "/automations/automation/" in text
    await until(lambda: len(receiver.texts) == 2, 40)
    assert receiver.texts[1].startswith(silent.format("south"))


@pytest.mark.long
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
        await holding.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
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
    fault="a worker that comes back and makes up for its late sweeps at once, in an outage",
    holds="one alert and one all-clear, and those of another deployment beside them",
    guard="the minute of the automation: without it each of the four alerts",
)
async def test_sweeps_that_end_at_once_alert_once(
    production: Production,
    client: SyncPrefectClient,
    alert_block: str,
    receiver: Receiver,
    regions: tuple[str, str],
) -> None:
    apply(client, entries(PERSON, within={}), alert_block)
    north, south = regions
    refused: End = ("FAILED", "Refused", {})
    clean: End = ("COMPLETED", "Clean", {})
    late = [end_a_sweep(production, region, refused) for region in (north,) * 4 + (south,)]
    await asyncio.gather(*late)
    await asyncio.sleep(8)  # for the server to send on, and to store what was told
    assert subjects(receiver) == ["Refused: made"] * 2
    await asyncio.gather(*(end_a_sweep(production, north, clean) for _ in range(2)))
    await asyncio.sleep(8)
    assert subjects(receiver) == ["Refused: made"] * 2 + ["Over: Refused"]


def subjects(receiver: Receiver) -> list[str]:
    """What was told, in two words each."""
    return [" ".join(text.split()[:2]) for text in receiver.texts]


@pytest.mark.long
@pytest.mark.guarantee(
    fault="an outage of 40 sweeps with a second kind of trouble in it (G30)",
    holds="one alert and one all-clear for each kind, at a real webhook block",
    guard="with open situations forgotten, or one for all kinds, other alerts come than these four",
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
    await sites.run("DELETE FROM sites")
    assert (await sweep()).name == "Clean"
    await until(lambda: len(receiver.texts) >= 4, 20)
    await asyncio.sleep(6)
    assert subjects(receiver) == [
        "Refused: sweep",
        "Failed: sweep",
        "Over: Failed",
        "Over: Refused",
    ]
    assert "26 stuck sites, over the cap of 25 a run" in receiver.texts[0]
