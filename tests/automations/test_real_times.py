"""The dead man's switch as the file has it: a quarter of an hour, and no minute less."""

import asyncio
import time

import pytest
from prefect.client.orchestration import SyncPrefectClient

from deployments.automations import apply, load
from tests.automations.conftest import End, Receiver, end_a_sweep
from tests.production import Production

INTERVAL = 300
WITHIN = 900
CLEAN: End = ("COMPLETED", "Clean", {})


@pytest.mark.long
@pytest.mark.e2e
@pytest.mark.timeout(3000)
@pytest.mark.guarantee(
    fault="the sweeps of one deployment stop, for half an hour at the real times",
    holds="one alert, after a quarter of an hour",
)
async def test_half_an_hour_of_silence_is_one_alert_after_a_quarter(
    production: Production,
    client: SyncPrefectClient,
    alert_block: str,
    receiver: Receiver,
    regions: tuple[str, str],
) -> None:
    """One deployment sweeps every five minutes, the other once and never again."""
    apply(client, load(), alert_block)
    alive, silent = regions
    started = time.monotonic()
    await end_a_sweep(production, silent, CLEAN)
    told: list[float] = []
    for number in range(8):
        await end_a_sweep(production, alive, CLEAN)
        while time.monotonic() < started + (number + 1) * INTERVAL:
            if len(receiver.texts) > len(told):
                told.append(time.monotonic() - started)
            await asyncio.sleep(1)
    print("told after", told, receiver.texts)
    assert [text.split("\n")[0] for text in receiver.texts] == [
        "No sweep of south has ended for 15 minutes"
    ]
    assert WITHIN <= told[0] < WITHIN + 30
