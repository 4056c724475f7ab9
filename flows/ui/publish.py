"""What a run shows beside its state: its name, the report and the events. Best effort, always.

The database has decided by the time anything is published, so an API that is away costs the
operator a page and nothing else.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from prefect.artifacts import acreate_markdown_artifact
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext
from prefect.events import emit_event
from prefect.logging import get_run_logger
from prefect.runtime import flow_run
from prefect.states import Completed, Failed

from provisioning.errors import CapExceeded
from provisioning.failures import Source
from provisioning.sweep.result import Ending
from provisioning.sweep.snapshot import Candidate
from provisioning.text import one_line

REPORT_KEY = "sweep-report"
PUBLISH_SECONDS = 15


async def name_run(name: str) -> None:
    """Give this run the name that the list of runs shows.

    Not by the flow's `flow_run_name`: for that Prefect 3.9.1 looks the storage of results up once
    more, which is a TLS context and two calls, 50 ms or more.
    """
    with _best_effort("name"):
        async with asyncio.timeout(PUBLISH_SECONDS), get_client() as client:
            await client.set_flow_run_name(UUID(flow_run.id), name)
        if (context := FlowRunContext.get()) and context.flow_run:
            context.flow_run.name = name  # for the log lines from here on


async def publish_report(summary: str, markdown: str) -> None:
    """Leave the report as an artifact of this run, in the one history of all sweeps."""
    with _best_effort("report"):
        async with asyncio.timeout(PUBLISH_SECONDS):
            await acreate_markdown_artifact(
                markdown, key=REPORT_KEY, description=one_line(summary, 200)
            )


def announce_reaped(
    site: Candidate, reason: str, source: Source, flow_run_id: UUID, note: str | None
) -> None:
    """Tell that a site was failed: the event `provision.site.reaped`."""
    with _best_effort(f"event of {site}"):
        emit_event(
            event="provision.site.reaped",
            resource={
                "prefect.resource.id": f"provision.site.{site.site_id}",
                "prefect.resource.name": site.domain,
            },
            payload={
                "attempt": site.attempt,
                "step": site.step,
                "reason": reason,
                "source": source.value,
                "flow_run_id": str(flow_run_id),
                "note": note,
            },
        )


def announce_refused(refusal: CapExceeded, flow_run_id: UUID) -> None:
    """Tell that a sweep refused: the event `provision.sweep.refused`."""
    with _best_effort("event of the refusal"):
        emit_event(
            event="provision.sweep.refused",
            resource={"prefect.resource.id": f"provision.sweep.{flow_run_id}"},
            payload={
                "found": refusal.found,
                "cap": refusal.cap,
                "per_hour": refusal.per_hour,
            },
        )


def ended(ending: Ending, message: str) -> State[Any]:
    """The state in which a run ends."""
    return (Failed if ending.red else Completed)(name=ending.value, message=message)


@contextmanager
def _best_effort(what: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # noqa: BLE001
        get_run_logger().warning("The %s was not published: %s", what, type(error).__name__)
