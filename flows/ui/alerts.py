"""Alerts, as events of ours that an automation sends on: one for a situation, not one for a run.

What was told is read from the server's own events. So an alert that the server lost counts as not
sent, and the next red run tells again; and a sweep without its database tells all the same.
"""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from prefect import Flow
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.objects import FlowRun, State
from prefect.events import Event, RelatedResource, Resource
from prefect.events.filters import (
    EventFilter,
    EventNameFilter,
    EventOccurredFilter,
    EventResourceFilter,
)
from prefect.logging.loggers import flow_run_logger

from provisioning.sweep.alerts import Alert, Moment, Told, Trouble, decide

EVENT = "provision.sweep.alert"
ALERT_SECONDS = 15

REMEMBERED = timedelta(days=6)
"""How far back alerts are looked for. By default the server keeps its events for a week."""


async def tell_of_the_end(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:
    """The hook of each sweep that ended by itself. Best effort.

    Dry runs and approvals look at no more than a part, and a person waits for them.
    """
    chosen = flow_run.parameters
    if chosen.get("dry_run") or chosen.get("approve_refusal"):
        return
    log = flow_run_logger(flow_run, flow)
    ended = state.name or ""
    now = datetime.now(UTC)
    try:
        async with asyncio.timeout(ALERT_SECONDS), get_client() as client:
            try:
                told = await _told(client, flow_run)
            except Exception as error:  # noqa: BLE001  (rather one alert too many than none)
                log.warning("Earlier alerts were not read: %s", type(error).__name__)
                told = {}
            for alert in decide(ended, told, now):
                event = _event(alert, flow, flow_run, state)
                await client.request("POST", "/events", json=[event.model_dump(mode="json")])
                log.info("Alert: %s", event.payload["subject"])
    except Exception as error:  # noqa: BLE001
        log.warning("The alert was not sent: %s", type(error).__name__)


async def _told(client: PrefectClient, flow_run: FlowRun) -> dict[Trouble, Told]:
    """The last alert of each kind for the same deployment."""
    page = await client.read_events(
        EventFilter(
            event=EventNameFilter(name=[EVENT]),
            resource=EventResourceFilter(id=[_resource(flow_run)]),
            occurred=EventOccurredFilter(since=datetime.now(UTC) - REMEMBERED),
        ),
        limit=50,
    )
    told: dict[Trouble, Told] = {}
    for event in sorted(page.events, key=lambda event: event.occurred):
        said = event.payload
        told[Trouble(said["kind"])] = Told(
            event.occurred, Moment(said["moment"]), datetime.fromisoformat(said["since"])
        )
    return told


def _resource(flow_run: FlowRun) -> str:
    """Whose situations these are: each deployment's own."""
    return f"provision.sweeps.{flow_run.deployment_id or flow_run.flow_id}"


def _event(alert: Alert, flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> Event:
    related = [("flow-run", flow_run.id), ("flow", flow_run.flow_id)]
    if flow_run.deployment_id:
        related.append(("deployment", flow_run.deployment_id))
    return Event(
        event=EVENT,
        occurred=datetime.now(UTC),
        resource=Resource(
            {"prefect.resource.id": _resource(flow_run), "prefect.resource.name": flow.name}
        ),
        related=[
            RelatedResource(
                {"prefect.resource.id": f"prefect.{role}.{id_}", "prefect.resource.role": role}
            )
            for role, id_ in related
        ],
        payload={
            "kind": alert.trouble.value,
            "moment": alert.moment.value,
            "since": alert.since.isoformat(),
            "ended": state.timestamp.isoformat(),
            "subject": alert.subject(flow_run.name),
            "message": state.message or "",
        },
    )
