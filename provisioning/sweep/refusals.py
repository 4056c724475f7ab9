"""What a refused sweep saw, kept so that a person can let exactly that through."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.database import autocommit
from provisioning.errors import CapExceeded, NotApprovable
from provisioning.schema import sweep_refusals
from provisioning.sweep.snapshot import Snapshot
from provisioning.text import count

LISTED = 10_000
"""The most (site, attempt) pairs that a refusal lists: what one approval can let through."""


VALID_FOR = timedelta(hours=24)
"""How long after a refusal it can be approved: what was investigated then is not what is now."""


@dataclass(frozen=True)
class Refusal:
    """A refused run, as recorded: when, and how many candidates it listed."""

    flow_run_id: UUID
    refused_at: datetime
    listed: int

    def __str__(self) -> str:
        return (
            f"the refusal of run {self.flow_run_id} at {self.refused_at:%Y-%m-%d %H:%M} UTC, "
            f"which listed {count(self.listed, 'site')}"
        )


async def find_refusal(engine: AsyncEngine, flow_run_id: UUID) -> Refusal:
    """The refusal that a person wants to approve.

    Raises:
        NotApprovable: that run left no refusal here, or left it more than 24 hours ago.
    """
    query = select(
        sweep_refusals.c.refused_at,
        func.jsonb_array_length(sweep_refusals.c.candidates).label("listed"),
        (func.now() - sweep_refusals.c.refused_at > VALID_FOR).label("expired"),
    ).where(sweep_refusals.c.flow_run_id == flow_run_id)
    async with autocommit(engine) as connection:
        found = (await connection.execute(query)).one_or_none()
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
    return Refusal(flow_run_id, found.refused_at, found.listed)


async def record_refusal(
    engine: AsyncEngine, flow_run_id: UUID, refusal: CapExceeded, snapshot: Snapshot
) -> None:
    """Keep the candidates of a refused run. Run again, the same run keeps what it saw last."""
    seen = {
        "cap": refusal.cap,
        "candidates": [
            {"site_id": str(candidate.site_id), "attempt": candidate.attempt}
            for candidate in snapshot.stuck
        ],
    }
    async with autocommit(engine) as connection:
        await connection.execute(
            insert(sweep_refusals)
            .values(flow_run_id=flow_run_id, **seen)
            .on_conflict_do_update(
                index_elements=["flow_run_id"], set_={**seen, "refused_at": func.now()}
            )
        )
