"""How a sweep ends that found more than it may reap."""

from functools import partial
from logging import ERROR, INFO
from typing import Any
from uuid import UUID

from prefect.client.schemas.objects import State
from prefect.logging import get_run_logger
from prefect.runtime import deployment, flow_run
from sqlalchemy.ext.asyncio import AsyncEngine

from flows.ending import end
from flows.ui.deliveries import deliver_or_say
from flows.ui.links import approval_form, on_the_ui
from flows.ui.publish import announce_refused
from provisioning.errors import CapExceeded, DatabaseError
from provisioning.sweep.caps import Caps
from provisioning.sweep.last_hour import last_hour
from provisioning.sweep.refusals import Past
from provisioning.sweep.refusing import refuse
from provisioning.sweep.report import refusal_report
from provisioning.sweep.result import Ending, NoticesSent
from provisioning.sweep.snapshot import Snapshot
from tasks.record_refusal import record_refusal


async def refuse_to_act(
    engine: AsyncEngine,
    snapshot: Snapshot,
    exceeded: CapExceeded,
    past: Past,
    caps: Caps,
    *,
    scheduled: bool,
    dry_run: bool,
) -> State[Any]:
    """End red with the evidence, and keep what was seen, so that a person can approve it.

    A dry run says what a sweep would do, and leaves nothing but its report.
    """
    log = get_run_logger()
    run_id = UUID(flow_run.id)
    stands = scheduled and not exceeded.per_hour
    ending = Ending.REHEARSED if dry_run else Ending.REFUSED

    def words(notices: NoticesSent) -> str:
        return refuse(snapshot, exceeded, past, stands=stands, dry_run=dry_run, notices=notices)

    log.log(INFO if dry_run else ERROR, "%s", words(None))
    approvable, hour, notices = False, [], None
    try:
        if exceeded.per_hour:
            hour = await last_hour(engine)
        if not dry_run:
            await record_refusal(engine, run_id, exceeded, snapshot, stands=stands)
            approvable = True
    except DatabaseError as error:
        log.error("The evidence of this refusal is not complete: %s", error)
    if not dry_run:
        notices = await deliver_or_say(engine)
        announce_refused(exceeded, run_id)
    page = partial(
        refusal_report,
        ending,
        snapshot=snapshot,
        refusal=exceeded,
        run_id=run_id if approvable else None,
        form=on_the_ui(approval_form(UUID(deployment.id), run_id)) if deployment.id else None,
        deployment=f"{flow_run.flow_name}/{deployment.name or 'every-5-minutes'}",
        hour=hour,
        caps=caps,
        notices=notices,
    )
    return await end(ending, words(notices), page)
