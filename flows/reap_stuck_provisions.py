"""The sweep: find provisions that started and never finished, and fail them, or refuse to.

Scheduled every five minutes. Nothing about a stuck provision throws, so this flow trusts no one
to notice: it asks the database, and the database decides each site.
"""

from datetime import timedelta
from functools import partial
from time import monotonic
from typing import Annotated, Any
from uuid import UUID

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.logging import get_run_logger
from prefect.runtime import flow_run
from pydantic import Field
from sqlalchemy.ext.asyncio import AsyncEngine

from flows.ending import end, fail, remember, report_what_stopped_it
from flows.leaving import leaving
from flows.refusing import refuse_to_act
from flows.sites import Act, settle_all
from flows.ui.alerts import tell_of_the_end
from flows.ui.clock import which_is_right
from flows.ui.deliveries import deliver_or_say
from flows.ui.links import on_the_ui, run_page
from flows.ui.log import log_snapshot
from flows.ui.origin import by_person, name_for_list
from flows.ui.publish import name_run
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
from provisioning.settings import settings
from provisioning.sweep.caps import Caps
from provisioning.sweep.refusals import LISTED
from provisioning.sweep.report import report
from provisioning.sweep.result import blindness, conclude, nearness
from provisioning.sweep.snapshot import Snapshot
from provisioning.text import one_line
from tasks.answer_refusals import answer_refusals
from tasks.check_cap import check_cap
from tasks.find_refusal import find_refusal
from tasks.query_stuck_sites import query_stuck_sites
from tasks.read_refusals import read_refusals

FLOW_TIMEOUT = 900
"""Seconds for one run. What it did stays done; the rest is the next sweep's."""

SITES_WITHIN = 600
"""Seconds in which a run begins to handle sites, so that it ends by itself: with what is owed
delivered, and a report that says what it did not reach."""

UUID_PATTERN = r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"


@flow(
    name="reap-stuck-provisions",
    timeout_seconds=FLOW_TIMEOUT,
    retries=0,  # a flow retry would evaluate a refusal again, and again
    persist_result=False,
    on_completion=[tell_of_the_end],
    on_failure=[report_what_stopped_it, tell_of_the_end],
)
async def reap_stuck_provisions(
    stuck_after_minutes: Annotated[int, Field(ge=1, le=525_600)] = 30,
    max_reap_per_run: Annotated[int, Field(ge=1, le=100_000)] = 25,
    max_reap_per_hour: Annotated[int, Field(ge=1, le=100_000)] = 100,
    max_reap_share: Annotated[int, Field(ge=1, le=100)] | None = None,
    approve_refusal: Annotated[str, Field(pattern=UUID_PATTERN)] | None = None,
    approve_only_step: Annotated[str, Field(max_length=100)] = "",
    note: Annotated[str, Field(max_length=500)] = "",
    dry_run: bool = False,
) -> State[Any]:
    """Fail every site whose provisioning started, never finished and is past the threshold.

    Args:
        stuck_after_minutes: How long ago a provisioning must have started, to be stuck. In
            minutes, by the database's clock; at least 1.
        max_reap_per_run: The cap. When more sites than this are stuck, the run reaps none of
            them and ends Refused, so that a person looks. At least 1.
        max_reap_per_hour: The cap of a slow outage: the sites reaped in the last hour and the
            ones found now. What a person let through, by an approval or a run by hand, is left
            out. At least 1.
        max_reap_share: Refuse also when the stuck sites are more than this part of those in
            flight, in percent, and at least 5. For a small platform, where an outage never
            reaches the cap. 1 to 100; not set, no share counts.
        approve_refusal: The id of a run that ended Refused in the last 24 hours and that you
            have investigated. Reaps exactly the sites that it listed and that are still stuck by
            the threshold that it looked with, whatever their number, and nothing else.
        approve_only_step: With approve_refusal: let only those sites through that stopped at
            this step, named as in the report of the refusal. The others stay as they are.
        note: Why you start this run, in your words. It stands in the ledger, the report and the
            events of the sites that the run reaps.
        dry_run: Look, check the caps and look again, and write nothing.
    """
    await name_run(name_for_list())
    if approve_only_step and not approve_refusal:
        return await fail("Nothing was changed: approve_only_step needs approve_refusal.")
    try:
        config = settings()
    except SettingsInvalid as error:
        return await fail(f"Could not look: {error}")
    url = config.database_url.get_secret_value()
    async with leaving(), database(url, pooled=config.database_pooled) as engine:
        state = await sweep(
            engine,
            threshold=timedelta(minutes=stuck_after_minutes),
            caps=Caps(max_reap_per_run, max_reap_per_hour, max_reap_share),
            approved=UUID(approve_refusal) if approve_refusal else None,
            only_step=approve_only_step or None,
            note=one_line(note, 500) or None,
            dry_run=dry_run,
        )
        if not dry_run and not approve_refusal:  # those look at a part, and a person waits for them
            await remember(engine, state)
        return state


async def sweep(
    engine: AsyncEngine,
    *,
    threshold: timedelta,
    caps: Caps,
    approved: UUID | None,
    only_step: str | None,
    note: str | None,
    dry_run: bool,
) -> State[Any]:
    """One sweep: query, cap check, and for each site a re-check and the terminal failure."""
    log = get_run_logger()
    run_id, sites_until = UUID(flow_run.id), monotonic() + SITES_WITHIN
    try:
        approves = await find_refusal(engine, approved, only_step) if approved else None
        if approves:
            threshold, caps = approves.threshold, Caps(per_run=max(approves.listed, 1))
            log.info("Approves %s", approves)
        snapshot = await query_stuck_sites(
            engine, threshold, max(LISTED, caps.per_run), writes=not dry_run, approves=approves
        )
        past = await read_refusals(engine, run_id)
    except NotApprovable as error:
        return await fail(f"Nothing was changed: {error}")
    except ClocksDiffer as error:
        return await fail(f"Could not look: {error} {await which_is_right(error.ahead)}")
    except (DatabaseUnready, DatabaseError) as error:
        return await fail(f"Could not look: {error}")
    log_snapshot(snapshot)
    blind = blindness(snapshot)
    if blind:
        return await _blinded(engine, snapshot, f"Could not look: {blind}", dry_run=dry_run)

    person = by_person() or past.own is not None  # Retry of a refusal is a person's act
    held_back = not approves and (dry_run or not person)
    try:
        await check_cap(
            snapshot.stuck_total,
            snapshot.in_flight,
            snapshot.reaped_last_hour,
            caps,
            past.standing if held_back else None,
        )
    except CapExceeded as exceeded:
        return await refuse_to_act(
            engine, snapshot, exceeded, past, caps, scheduled=not person, dry_run=dry_run
        )
    if past.open and not dry_run:
        try:
            await answer_refusals(engine, threshold, approves)
        except DatabaseError as error:
            return await fail(f"Nothing was changed: {error}")
    near = nearness(snapshot.stuck_total, snapshot.reaped_last_hour, caps)
    if near:
        log.warning("%s: beyond it, a sweep refuses to act", near)

    source = Source.APPROVED if approves else Source.WATCHDOG
    minutes = threshold // timedelta(minutes=1)
    reason = f"{source}: exceeded the {minutes}-minute threshold without completing"
    act = Act(reason, source, by_person=person, note=note, dry_run=dry_run)
    results = await settle_all(engine, snapshot, act, time_left=lambda: sites_until - monotonic())

    notices = None if dry_run else await deliver_or_say(engine)
    ending, message = conclude(
        snapshot, results, dry_run=dry_run, near=near, approves=approves, note=note, notices=notices
    )
    link = on_the_ui(run_page(approves.flow_run_id)) if approves else None
    page = partial(
        report,
        ending,
        snapshot=snapshot,
        results=results,
        approves=link,
        notices=notices,
        caps=None if approves else caps,
    )
    return await end(ending, message, page)


async def _blinded(
    engine: AsyncEngine, snapshot: Snapshot, message: str, *, dry_run: bool
) -> State[Any]:
    """End red where most of what is in flight can't be read, with the list of it."""
    get_run_logger().error(message)
    notices = None if dry_run else await deliver_or_say(engine)
    return await fail(message, snapshot, notices)
