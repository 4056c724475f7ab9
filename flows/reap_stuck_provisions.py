"""The sweep: find provisions that started and never finished, and fail them, or refuse to.

Scheduled every five minutes. Nothing about a stuck provision throws, so this flow trusts no one
to notice: it asks the database, and the database decides each site.
"""

from datetime import timedelta
from time import monotonic
from typing import Annotated, Any
from uuid import UUID

import anyio
from prefect import flow
from prefect.client.schemas.objects import State
from prefect.logging import get_run_logger
from prefect.runtime import deployment, flow_run
from prefect.states import Completed, Failed
from pydantic import Field
from sqlalchemy.ext.asyncio import AsyncEngine

from flows.sites import Act, settle_all
from flows.ui.clock import which_is_right
from flows.ui.deliveries import deliver_owed
from flows.ui.history import refusals_in_a_row
from flows.ui.links import approval_form, on_the_ui, run_page
from flows.ui.log import log_snapshot, what_it_is
from flows.ui.publish import announce_refused, name_run, publish_report
from provisioning.database import database
from provisioning.errors import (
    CapExceeded,
    ClocksDiffer,
    DatabaseError,
    DatabaseUnready,
    NotApprovable,
    SettingsInvalid,
)
from provisioning.failures import Source
from provisioning.outbox.dispatcher import Deliveries
from provisioning.settings import settings
from provisioning.sweep.caps import Caps
from provisioning.sweep.refusals import LISTED
from provisioning.sweep.report import refusal_report, report
from provisioning.sweep.result import (
    Ending,
    NotLookedUp,
    blindness,
    conclude,
    nearness,
    refuse,
)
from provisioning.sweep.snapshot import Snapshot, last_hour
from tasks.check_cap import check_cap
from tasks.find_refusal import find_refusal
from tasks.query_stuck_sites import query_stuck_sites
from tasks.record_refusal import record_refusal

FLOW_TIMEOUT = 900
"""Seconds for one run. What it did stays done; the rest is the next sweep's."""

SITES_WITHIN = 600
"""Seconds in which a run begins to handle sites, so that it ends by itself: with what is owed
delivered, and a report that says what it did not reach."""

DELIVERIES_WITHIN = 150
"""Seconds for all deliveries, which take a minute unless the database is gone."""

UUID_PATTERN = r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"


@flow(
    name="reap-stuck-provisions",
    timeout_seconds=FLOW_TIMEOUT,
    retries=0,  # a flow retry would evaluate a refusal again, and again
    persist_result=False,
)
async def reap_stuck_provisions(
    stuck_after_minutes: Annotated[int, Field(ge=1, le=525_600)] = 30,
    max_reap_per_run: Annotated[int, Field(ge=1, le=100_000)] = 25,
    max_reap_per_hour: Annotated[int, Field(ge=1, le=100_000)] = 100,
    approve_refusal: Annotated[str, Field(pattern=UUID_PATTERN)] | None = None,
    dry_run: bool = False,
) -> State[Any]:
    """Fail every site whose provisioning started, never finished and is past the threshold.

    Args:
        stuck_after_minutes: How long ago a provisioning must have started, to be stuck. In
            minutes, by the database's clock; at least 1.
        max_reap_per_run: The cap. When more sites than this are stuck, the run reaps none of
            them and ends Refused, so that a person looks. At least 1.
        max_reap_per_hour: The cap of a slow outage: the sites reaped in the last hour and the
            ones found now. Approved runs are left out. At least 1.
        approve_refusal: The id of a run that ended Refused in the last 24 hours and that you
            have investigated. Reaps exactly the sites that it listed and that are still stuck,
            whatever their number, and nothing else.
        dry_run: Look, check the caps and look again, and write nothing.
    """
    await name_run(what_it_is())
    try:
        url = settings().database_url.get_secret_value()
    except SettingsInvalid as error:
        return Failed(message=f"Could not look: {error}")
    async with database(url) as engine:
        return await sweep(
            engine,
            threshold=timedelta(minutes=stuck_after_minutes),
            caps=Caps(max_reap_per_run, max_reap_per_hour),
            approved=UUID(approve_refusal) if approve_refusal else None,
            dry_run=dry_run,
        )


async def sweep(
    engine: AsyncEngine, *, threshold: timedelta, caps: Caps, approved: UUID | None, dry_run: bool
) -> State[Any]:
    """One sweep: query, cap check, and for each site a re-check and the terminal failure."""
    log = get_run_logger()
    sites_until = monotonic() + SITES_WITHIN
    try:
        approves = await find_refusal(engine, approved) if approved else None
        if approves:
            caps = Caps(per_run=max(approves.listed, 1), per_hour=None)
            log.info("Approves %s", approves)
        snapshot = await query_stuck_sites(
            engine, threshold, max(LISTED, caps.per_run), writes=not dry_run, approved=approved
        )
    except NotApprovable as error:
        return Failed(message=f"Nothing was changed: {error}")
    except ClocksDiffer as error:
        return Failed(message=f"Could not look: {error} {await which_is_right(error.ahead)}")
    except (DatabaseUnready, DatabaseError) as error:
        return Failed(message=f"Could not look: {error}")
    log_snapshot(snapshot)
    blind = blindness(snapshot)
    if blind:
        return await _blinded(engine, snapshot, f"Could not look: {blind}", dry_run=dry_run)

    try:
        await check_cap(snapshot.stuck_total, snapshot.reaped_last_hour, caps)
    except CapExceeded as exceeded:
        return await _refused(engine, snapshot, exceeded, dry_run=dry_run)
    near = nearness(snapshot.stuck_total, snapshot.reaped_last_hour, caps)
    if near:
        log.warning("%s: beyond it, a sweep refuses to act", near)

    source = Source.APPROVED if approves else Source.WATCHDOG
    minutes = threshold // timedelta(minutes=1)
    reason = f"{source}: exceeded the {minutes}-minute threshold without completing"
    results = await settle_all(
        engine, snapshot, Act(reason, source, dry_run), time_left=lambda: sites_until - monotonic()
    )

    notices = None if dry_run else await _deliver(engine)
    ending, message = conclude(
        snapshot, results, dry_run=dry_run, near=near, approves=approves, notices=notices
    )
    link = on_the_ui(run_page(approves.flow_run_id)) if approves else None
    await publish_report(
        f"{ending}: {message}",
        report(ending, message, snapshot, results, approves=link, notices=notices),
    )
    return _state(ending, message)


async def _blinded(
    engine: AsyncEngine, snapshot: Snapshot, message: str, *, dry_run: bool
) -> State[Any]:
    """End red where most of what is in flight can't be read, with the list of it."""
    get_run_logger().error(message)
    notices = None if dry_run else await _deliver(engine)
    await publish_report(
        message, report("Failed", message, snapshot, [], approves=None, notices=notices)
    )
    return Failed(message=message)


async def _refused(
    engine: AsyncEngine, snapshot: Snapshot, exceeded: CapExceeded, *, dry_run: bool
) -> State[Any]:
    """End red with the evidence, and keep what was seen, so that a person can approve it."""
    log = get_run_logger()
    run_id = UUID(flow_run.id)
    streak = await refusals_in_a_row()
    log.error(refuse(snapshot, exceeded, streak, dry_run=dry_run, notices=None))
    approvable, hour = False, []
    try:
        if not dry_run:
            await record_refusal(engine, run_id, exceeded, snapshot)
            approvable = True
        if exceeded.per_hour:
            hour = await last_hour(engine)
    except DatabaseError as error:
        log.error("The evidence of this refusal is not complete: %s", str(error))
    notices = None if dry_run else await _deliver(engine)
    message = refuse(snapshot, exceeded, streak, dry_run=dry_run, notices=notices)
    await publish_report(
        f"{Ending.REFUSED}: {message}",
        refusal_report(
            message,
            snapshot,
            exceeded,
            run_id=run_id if approvable else None,
            form=on_the_ui(approval_form(UUID(deployment.id), run_id)) if deployment.id else None,
            deployment=f"{flow_run.flow_name}/{deployment.name or 'every-5-minutes'}",
            hour=hour,
            notices=notices,
        ),
    )
    announce_refused(exceeded, run_id)
    return _state(Ending.REFUSED, message)


async def _deliver(engine: AsyncEngine) -> Deliveries | NotLookedUp:
    """Send what this run, earlier ones and the chain left owed."""
    try:
        with anyio.fail_after(DELIVERIES_WITHIN):
            return await deliver_owed(engine)
    except TimeoutError:
        return NotLookedUp(f"the database gave no answer within {DELIVERIES_WITHIN} seconds")
    except DatabaseError as error:
        return NotLookedUp(str(error))


def _state(ending: Ending, message: str) -> State[Any]:
    return (Failed if ending.red else Completed)(name=ending.value, message=message)
