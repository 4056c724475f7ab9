"""A sweep tells that it ended, and what kind of trouble it met; a rehearsal tells nobody."""

import asyncio
from datetime import UTC, datetime
from uuid import UUID, uuid4

import httpx
import pytest
from prefect.client.orchestration import get_client

from flows.reap_stuck_provisions import reap_stuck_provisions
from flows.ui.alerts import ALERT, ENDED
from tests.flow.conftest import Sweep
from tests.flow.traces import run_id
from tests.sites import Sites


@pytest.mark.guarantee(
    fault="a dry run or an approval that fails",
    holds="it counts for no dead man's switch and alerts nobody",
    guard="dry runs and approvals tell of no end: without it six ends instead of three",
)
async def test_each_sweep_tells_of_its_end_and_no_dry_run_and_no_approval_does(
    sweep: Sweep, sites: Sites, prefect_api: str
) -> None:
    began = datetime.now(UTC)
    await sites.run("ALTER TABLE sweep_refusals RENAME TO away")
    failed = [await sweep(dry_run=True), await sweep(approve_refusal=str(uuid4())), await sweep()]
    assert [state.name for state in failed] == ["Failed"] * 3
    await sites.run("ALTER TABLE away RENAME TO sweep_refusals")
    await sites.add_many(26)
    refused = await sweep()
    assert (await sweep(dry_run=True)).name == "Rehearsed"
    assert (await sweep(approve_refusal=str(run_id(refused)))).name == "Reaped"
    await sweep()

    async with get_client() as client:
        flow_id = await client.create_flow(reap_stuck_provisions)
    said = await told(prefect_api, flow_id, began, until=(ENDED, "Clean"))
    assert [state for event, state in said if event == ENDED] == ["Failed", "Refused", "Clean"]
    assert len([event for event, _ in said if event == ALERT]) <= 4, "first and over, of two kinds"


async def told(
    api: str, flow_id: UUID, since: datetime, until: tuple[str, str]
) -> list[tuple[str, str | None]]:
    """The ends and alerts of sweeps without a deployment since then, up to one."""
    query = {
        "resource": {"id": [f"provision.sweeps.{flow_id}"]},
        "occurred": {"since": since.isoformat()},
        "order": "ASC",
    }
    async with httpx.AsyncClient(base_url=api) as http:
        for _ in range(150):
            answer = await http.post("/events/filter", json={"filter": query})
            found = [(e["event"], e["payload"].get("state")) for e in answer.json()["events"]]
            if until in found:
                return found
            await asyncio.sleep(0.1)
    raise AssertionError(f"{until} was not told: {found}")
