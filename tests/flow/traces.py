"""What a sweep leaves behind, read back from the Prefect server as its UI would."""

import asyncio
from typing import Any
from uuid import UUID

import httpx
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from prefect.client.schemas.objects import FlowRun, State, TaskRun
from prefect.flow_engine import run_flow_async

from flows.reap_stuck_provisions import reap_stuck_provisions
from tests.sites import Sites


def run_id(state: State[Any]) -> UUID:
    assert state.state_details.flow_run_id
    return state.state_details.flow_run_id


def message(state: State[Any]) -> str:
    """What the state says."""
    return state.message or ""


async def run_again(run: FlowRun) -> State[Any]:
    """Run the same flow run again, as a worker does after the UI's Retry."""
    result = run_flow_async(
        reap_stuck_provisions,
        flow_run=run,
        parameters=reap_stuck_provisions.validate_parameters(run.parameters),
        return_type="state",
    )
    state: State[Any] = await result  # type: ignore[assignment]
    return state


async def nothing_written(sites: Sites) -> bool:
    """Whether no site carries a mark, the ledger is empty and no notice is owed."""
    return not (await sites.failed() or await sites.ledger() or await sites.notices())


async def flow_run(state: State[Any]) -> FlowRun:
    async with get_client() as client:
        return await client.read_flow_run(run_id(state))


async def task_runs(state: State[Any], name: str, expected: int) -> list[TaskRun]:
    """The task runs of a flow run, once the server has taken in their events."""
    wanted = FlowRunFilter(id=FlowRunFilterId(any_=[run_id(state)]))
    async with get_client() as client:
        for _ in range(600):
            runs = await client.read_task_runs(flow_run_filter=wanted)
            ours = [run for run in runs if run.task_key.startswith(name)]
            if len(ours) >= expected and all(r.state and r.state.is_final() for r in ours):
                return ours
            await asyncio.sleep(0.1)
    raise AssertionError(f"{len(ours)} runs of {name}, not {expected}")


async def report_of(state: State[Any], api: str) -> str:
    async with httpx.AsyncClient(base_url=api) as http:
        answer = await http.post(
            "/artifacts/filter",
            json={
                "artifacts": {"key": {"any_": ["sweep-report"]}},
                "flow_runs": {"id": {"any_": [str(run_id(state))]}},
            },
        )
    return "\n".join(artifact["data"] for artifact in answer.json())


async def logs_of(state: State[Any], api: str, expected: str = "") -> str:
    query = {"logs": {"flow_run_id": {"any_": [str(run_id(state))]}}, "limit": 200}
    async with httpx.AsyncClient(base_url=api) as http:
        for _ in range(100):
            lines = (await http.post("/logs/filter", json=query)).json()
            text = "\n".join(line["message"] for line in lines)
            if lines and expected in text:
                break
            await asyncio.sleep(0.1)
    return text


async def events(api: str, resource: str) -> list[dict[str, Any]]:
    async with httpx.AsyncClient(base_url=api) as http:
        for _ in range(300):
            answer = await http.post(
                "/events/filter", json={"filter": {"resource": {"id": [resource]}}}
            )
            found: list[dict[str, Any]] = answer.json()["events"]
            if found:
                return found
            await asyncio.sleep(0.1)
    return []
