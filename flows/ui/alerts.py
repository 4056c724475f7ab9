"""What a sweep's end tells: events of ours, which automations send on.

Each end is one event, which the dead man's switch waits for: the states of runs would not do, since
a dry run that fails has the state of a sweep that failed. An alert is another event: one for a
situation, not one for a run.

What was told is read from the server's own events. So an alert that the server lost counts as not
sent, and the next red run tells again; and a sweep without its database tells all the same.
"""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

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

ENDED = "provision.sweep.ended"
ALERT = "provision.sweep.alert"

READ_SECONDS = 5
TELL_SECONDS = 15
"""For all of it, at the end of a run whose state is already set."""

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
    try:
        async with asyncio.timeout(TELL_SECONDS), get_client() as client:
            try:
                async with asyncio.timeout(READ_SECONDS):
                    told = await _told(client, flow_run)
            except Exception as error:  # noqa: BLE001  (rather one alert too many than none)
                log.warning("Earlier alerts were not read: %s", type(error).__name__)
                told = {}
            alerts = decide(state.name or "", told, datetime.now(UTC))
            events = [
                _event(ENDED, flow, flow_run, {}, {"state": state.name or ""}),
                *(_alert(alert, flow, flow_run, state) for alert in alerts),
            ]
            body = [event.model_dump(mode="json") for event in events]
            await client.request("POST", "/events", json=body)
            for alert in alerts:
                log.info("Alert: %s", alert.subject(flow_run.name))
    except Exception as error:  # noqa: BLE001
        log.warning("The end of this sweep was not told: %s", type(error).__name__)


async def _told(client: PrefectClient, flow_run: FlowRun) -> dict[Trouble, Told]:
    """The last alert of each kind for the same deployment."""
    page = await client.read_events(
        EventFilter(
            event=EventNameFilter(name=[ALERT]),
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
    """Whose ends and situations these are: each deployment's own."""
    return f"provision.sweeps.{flow_run.deployment_id or flow_run.flow_id}"


def _alert(alert: Alert, flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> Event:
    """An alert; by its labels the automation knows those that several sweeps tell at once."""
    labels = {"provision.trouble": alert.trouble.value, "provision.moment": alert.moment.value}
    payload = {
        "kind": alert.trouble.value,
        "moment": alert.moment.value,
        "since": alert.since.isoformat(),
        "ended": state.timestamp.isoformat(),
        "subject": alert.subject(flow_run.name),
        "message": state.message or "",
    }
    return _event(ALERT, flow, flow_run, labels, payload)


def _event(
    name: str,
    flow: Flow[..., Any],
    flow_run: FlowRun,
    labels: dict[str, str],
    payload: dict[str, str],
) -> Event:
    related = [_related("flow-run", flow_run.id), _related("flow", flow_run.flow_id, flow.name)]
    if flow_run.deployment_id:
        related.append(_related("deployment", flow_run.deployment_id))
    whose = {"prefect.resource.id": _resource(flow_run), "prefect.resource.name": flow.name}
    return Event(
        event=name,
        occurred=datetime.now(UTC),
        resource=Resource(whose | labels),
        related=related,
        payload=payload,
    )


def _related(role: str, id_: UUID, name: str | None = None) -> RelatedResource:
    """As the server's own events name it, so that automations find it in both alike."""
    labels = {"prefect.resource.id": f"prefect.{role}.{id_}", "prefect.resource.role": role}
    return RelatedResource(labels | ({"prefect.resource.name": name} if name else {}))
