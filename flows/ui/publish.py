"""What a run shows beside its state: its name, the report and the events. Best effort, always.

The database has decided by the time anything is published, so an API that is away costs the
operator a page and nothing else.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from logging import Logger, LoggerAdapter
from uuid import UUID

from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import ArtifactCreate
from prefect.context import FlowRunContext
from prefect.events import emit_event
from prefect.logging import get_run_logger
from prefect.runtime import flow_run

from provisioning.errors import CapExceeded
from provisioning.failures import Source
from provisioning.sweep.snapshot import Candidate
from provisioning.text import one_line

Log = Logger | LoggerAdapter[Logger]

REPORT_KEY = "sweep-report"
PUBLISH_SECONDS = 15


async def name_run(name: str) -> None:
    """Give this run the name that the list of runs shows.

    Not by the flow's `flow_run_name`: for that Prefect 3.9.1 looks the storage of results up once
    more, which is a TLS context and two calls, 50 ms or more.
    """
    with _best_effort("name", get_run_logger()):
        async with asyncio.timeout(PUBLISH_SECONDS), get_client() as client:
            await client.set_flow_run_name(UUID(flow_run.id), name)
        if (context := FlowRunContext.get()) and context.flow_run:
            context.flow_run.name = name  # for the log lines from here on


async def publish_report(
    ending: str, message: str, page: Callable[[str], str], flow_run_id: UUID, log: Log
) -> None:
    """Leave the page that is made of a message as an artifact of a run, in the history of all."""
    with _best_effort("report", log):
        artifact = ArtifactCreate(
            type="markdown",
            key=REPORT_KEY,
            description=one_line(f"{ending}: {message}", 200),
            data=page(message),
            flow_run_id=flow_run_id,
        )
        async with asyncio.timeout(PUBLISH_SECONDS), get_client() as client:
            await client.create_artifact(artifact)


def announce_reaped(
    site: Candidate, reason: str, source: Source, flow_run_id: UUID, note: str | None
) -> None:
    """Tell that a site was failed: the event `provision.site.reaped`."""
    with _best_effort(f"event of {site}", get_run_logger()):
        emit_event(
            event="provision.site.reaped",
            resource={
                "prefect.resource.id": f"provision.site.{site.site_id}",
                "prefect.resource.name": str(site),
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
    with _best_effort("event of the refusal", get_run_logger()):
        emit_event(
            event="provision.sweep.refused",
            resource={"prefect.resource.id": f"provision.sweep.{flow_run_id}"},
            payload={
                "found": refusal.found,
                "cap": refusal.cap,
                "per_hour": refusal.per_hour,
            },
        )


@contextmanager
def _best_effort(what: str, log: Log) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # noqa: BLE001
        log.warning("The %s was not published: %s", what, type(error).__name__)
