"""Step 4: the dangerous action, through the one terminal-failure path."""

from datetime import datetime
from uuid import UUID

from prefect.runtime import task_run
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.failures import Source, fail_terminally, is_claimed_by
from provisioning.outbox.notices import Told
from provisioning.settings import settings
from provisioning.site_state import Outcome
from provisioning.sweep.snapshot import Candidate
from tasks.policy import database_task


@database_task("fail_site_terminally", "fail {site}")
async def fail_site_terminally(
    engine: AsyncEngine,
    site: Candidate,
    *,
    reason: str,
    source: Source,
    flow_run_id: UUID,
    cutoff: datetime,
    by_person: bool,
    note: str | None,
) -> Outcome:
    """Fail the attempt if it is still stuck at this very moment."""
    outcome = await fail_terminally(
        engine,
        site.site_id,
        site.attempt,
        reason=reason,
        source=source,
        told=Told.LATE,
        flow_run_id=flow_run_id,
        started_before=cutoff,
        teardown=settings().teardown_url is not None,
        by_person=by_person,
        note=note,
    )
    # A connection can be lost after the commit and before its answer: the failure that this try
    # finds may be the one that the try before it recorded.
    if (
        outcome is Outcome.ALREADY_FAILED
        and task_run.run_count > 1
        and await is_claimed_by(engine, site.site_id, site.attempt, flow_run_id)
    ):
        return Outcome.REAPED
    return outcome
