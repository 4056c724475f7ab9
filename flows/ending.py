"""The one way in which each sweep ends: its message, its report, its state.

What a sweep did is done by then. So whatever is published here is bounded in time, and costs the
operator a page and nothing else when it fails.
"""

from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID

import anyio
from prefect import Flow, runtime
from prefect.client.schemas.objects import FlowRun, State
from prefect.context import FlowRunContext
from prefect.logging import get_run_logger
from prefect.logging.loggers import flow_run_logger
from prefect.states import Completed, Failed
from sqlalchemy.ext.asyncio import AsyncEngine

from flows.ui.neighbours import neighbours
from flows.ui.publish import publish_report
from provisioning.errors import DatabaseError, SettingsInvalid
from provisioning.settings import settings
from provisioning.sweep.ends import record_end
from provisioning.sweep.report import failure_report
from provisioning.sweep.result import Ending, NoticesSent
from provisioning.sweep.snapshot import Snapshot
from provisioning.text import sentences

REMEMBER_SECONDS = 10
"""For one row that tells the end, when all that a sweep does is done."""


async def end(ending: Ending, message: str, page: Callable[[str], str]) -> State[Any]:
    """End with a message that names the database, and with the report that `page` makes of it."""
    told = sentences(message, *_which_database())
    await publish_report(ending, told, page, UUID(runtime.flow_run.id), get_run_logger())
    return (Failed if ending.red else Completed)(name=ending.value, message=told)


async def remember(engine: AsyncEngine, state: State[Any]) -> None:
    """Leave with the database when and how it was last swept, for dashboards and the doctor.

    Prefect's server is not asked for anything here: it may have stopped answering.
    """
    context = FlowRunContext.get()
    run = context.flow_run if context else None
    if run is None:
        return
    deployed = str(run.deployment_id or "")
    try:
        with anyio.fail_after(REMEMBER_SECONDS):
            await record_end(engine, deployed, run.id, state.name or "")
    except (DatabaseError, TimeoutError) as error:
        get_run_logger().warning(
            "The database does not know of the end of this sweep: %s",
            error if isinstance(error, DatabaseError) else f"no answer in {REMEMBER_SECONDS} s",
        )


async def fail(
    message: str, seen: Snapshot | None = None, notices: NoticesSent = None
) -> State[Any]:
    """End red: the sweep could not look, or not do what a person asked for.

    Args:
        seen: what it saw all the same, such as the stamps that it can't read.
    """
    deployed = UUID(runtime.deployment.id) if runtime.deployment.id else None
    page = await _failure_page(
        Ending.FAILED, deployed, runtime.flow_run.parameters, seen=seen, notices=notices
    )
    return await end(Ending.FAILED, message, page)


async def report_what_stopped_it(
    flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]
) -> None:
    """The report of a run whose time was up, or that raised what nobody expected.

    Prefect ends such a run, and calls this hook afterwards. All others have their report by then.
    """
    raised = getattr(state.data, "result", state.data)
    if not isinstance(raised, BaseException):
        return
    ending, log = state.name or Ending.FAILED.value, flow_run_logger(flow_run, flow)
    page = await _failure_page(ending, flow_run.deployment_id, flow_run.parameters, cut_off=True)
    message = sentences(state.message or "", *_which_database())
    await publish_report(ending, message, page, flow_run.id, log)


async def _failure_page(
    ending: str,
    deployment_id: UUID | None,
    parameters: dict[str, Any],
    *,
    cut_off: bool = False,
    seen: Snapshot | None = None,
    notices: NoticesSent = None,
) -> Callable[[str], str]:
    return partial(
        failure_report,
        ending,
        around=await neighbours(deployment_id),
        approval=bool(parameters.get("approve_refusal")),
        cut_off=cut_off,
        snapshot=seen,
        notices=notices,
    )


def _which_database() -> list[str]:
    try:
        return [f"Database: {settings().database_shown}"]
    except SettingsInvalid:
        return []
