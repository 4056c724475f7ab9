"""A person lets through what a refused sweep listed: all of it, or what stopped at one step."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import ColumnElement, Subquery, Text, cast, func, select, true, tuple_
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.database import autocommit
from provisioning.errors import NotApprovable
from provisioning.schema import sites, sweep_refusals
from provisioning.stamps import STARTED
from provisioning.sweep.grouping import NO_STEP
from provisioning.text import count, one_line

VALID_FOR = timedelta(hours=24)
"""How long after a refusal it can be approved: what was investigated then is not what is now."""


@dataclass(frozen=True)
class Refusal:
    """A refused run, as recorded.

    Attributes:
        threshold: how old an attempt had to be, to be stuck in the eyes of that run.
        listed: how many candidates it listed, or those of them that an approval is for.
        only_step: the step at which these stopped; None where the approval is for all of them.
    """

    flow_run_id: UUID
    refused_at: datetime
    threshold: timedelta
    listed: int
    only_step: str | None = None

    def __str__(self) -> str:
        return (
            f"the refusal of run {self.flow_run_id} at {self.refused_at:%Y-%m-%d %H:%M} UTC, "
            f"which listed {count(self.listed, 'site')}"
        ) + (f" at step {self.only_step}" if self.only_step else "")


async def find_refusal(
    engine: AsyncEngine, flow_run_id: UUID, only_step: str | None = None
) -> Refusal:
    """The refusal that a person wants to approve, or the part of it that stopped at one step.

    Raises:
        NotApprovable: that run left no refusal here, left it more than 24 hours ago, or listed no
            site at that step.
    """
    query = select(
        sweep_refusals.c.refused_at,
        sweep_refusals.c.threshold,
        (func.now() - sweep_refusals.c.refused_at > VALID_FOR).label("expired"),
    ).where(sweep_refusals.c.flow_run_id == flow_run_id)
    step = _listed(flow_run_id).c.step
    sizes = select(step, func.count()).group_by(step).order_by(func.count().desc())
    async with autocommit(engine) as connection:
        found = (await connection.execute(query)).one_or_none()
        steps = {row[0]: row[1] for row in await connection.execute(sizes)}
    if found is None:
        raise NotApprovable(
            f"run {flow_run_id} left no refusal in this database. Give the id of a run that ended "
            "Refused and was no dry run: it stands on that run's page and in its report."
        )
    if found.expired:
        raise NotApprovable(
            f"run {flow_run_id} refused at {found.refused_at:%Y-%m-%d %H:%M} UTC, more than 24 "
            "hours ago: what was investigated then is not what is stuck now. Approve a newer one."
        )
    if only_step is not None and only_step not in steps:
        shown = ", ".join(f"{name} ({size:,})" for name, size in list(steps.items())[:10])
        raise NotApprovable(
            f"run {flow_run_id} listed no site at step {one_line(only_step)}. It listed: {shown}."
        )
    return Refusal(
        flow_run_id,
        found.refused_at,
        found.threshold,
        listed=sum(steps.values()) if only_step is None else steps[only_step],
        only_step=only_step,
    )


def _listed(refusal: UUID) -> Subquery:
    """The candidates of a refused run: `site_id`, `attempt` and `step`."""
    listed = func.jsonb_array_elements(sweep_refusals.c.candidates).table_valued("value")
    value = listed.c.value.cast(JSONB)
    return (
        select(
            value["site_id"].astext.label("site_id"),
            value["attempt"].astext.label("attempt"),
            func.coalesce(func.nullif(value["step"].astext, ""), NO_STEP).label("step"),
        )
        .select_from(sweep_refusals.join(listed, true()))
        .where(sweep_refusals.c.flow_run_id == refusal)
        .subquery()
    )


def listed_by(refusal: Refusal) -> ColumnElement[bool]:
    """Whether an approval is for this attempt of this site."""
    listed = _listed(refusal.flow_run_id)
    step = true() if refusal.only_step is None else listed.c.step == refusal.only_step
    return tuple_(cast(sites.c.id, Text), STARTED).in_(
        select(listed.c.site_id, listed.c.attempt).where(step)
    )
