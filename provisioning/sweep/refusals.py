"""What refused sweeps saw, kept so that a person can let exactly that through.

And until a person does, or few are stuck again, a refusal stands: see `Past`.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import delete, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.database import autocommit
from provisioning.errors import CapExceeded
from provisioning.schema import sweep_refusals
from provisioning.sweep.caps import Standing
from provisioning.sweep.snapshot import Snapshot

LISTED = 10_000
"""The most (site, attempt) pairs that a refusal lists: what one approval can let through."""

KEPT_FOR = timedelta(days=30)
"""How long a refusal is kept."""

_OPEN = sweep_refusals.c.over_at.is_(None)


@dataclass(frozen=True)
class Past:
    """The refusals of this database since a sweep last acted.

    Attributes:
        in_a_row: how many there were, this run's own left out.
        since: when the first of them was made; None where there were none.
        standing: the refusal that holds scheduled sweeps back; None where none does.
        own: when this very run refused before, and somebody pressed Retry; else None.
    """

    in_a_row: int
    since: datetime | None
    standing: Standing | None
    own: datetime | None

    @property
    def open(self) -> bool:
        """Whether there is something for a sweep that acts to answer."""
        return self.since is not None


async def read_past(engine: AsyncEngine, flow_run_id: UUID) -> Past:
    """What this database's earlier refusals mean for the run.

    Raises:
        DatabaseError: the database did not answer.
    """
    others = sweep_refusals.c.flow_run_id != flow_run_id
    own = sweep_refusals.c.flow_run_id == flow_run_id
    stands = sweep_refusals.c.stands
    refused_at = sweep_refusals.c.refused_at
    query = select(
        func.count().filter(others).label("in_a_row"),
        func.min(refused_at).label("since"),
        func.min(refused_at).filter(stands).label("stands_since"),
        func.min(sweep_refusals.c.cap).filter(stands).label("cap"),
        select(refused_at).where(own).scalar_subquery().label("own"),
    ).where(_OPEN)
    async with autocommit(engine) as connection:
        row = (await connection.execute(query)).one()
    return Past(
        in_a_row=row.in_a_row,
        since=row.since,
        standing=Standing(row.stands_since, row.cap) if row.stands_since else None,
        own=row.own,
    )


async def record_refusal(
    engine: AsyncEngine,
    flow_run_id: UUID,
    refusal: CapExceeded,
    snapshot: Snapshot,
    *,
    stands: bool,
) -> None:
    """Keep the candidates of a refused run. Run again, the same run keeps what it saw first.

    Args:
        stands: whether it holds later scheduled sweeps back.
    """
    async with autocommit(engine) as connection:
        await connection.execute(
            insert(sweep_refusals)
            .values(
                flow_run_id=flow_run_id,
                cap=refusal.cap,
                threshold=snapshot.looked_at - snapshot.cutoff,
                stands=stands,
                candidates=[
                    {
                        "site_id": str(candidate.site_id),
                        "attempt": candidate.attempt,
                        "step": candidate.step,
                    }
                    for candidate in snapshot.stuck
                ],
            )
            .on_conflict_do_nothing(index_elements=["flow_run_id"])
        )
    await prune_refusals(engine)


async def close_refusals(engine: AsyncEngine, threshold: timedelta) -> None:
    """A sweep acts: no refusal stands any longer, and the next one is the first of its row.

    Those of sweeps that looked for younger attempts stay open: this one can't tell of them.

    Args:
        threshold: how old an attempt has to be, to be stuck in the eyes of this sweep.
    """
    async with autocommit(engine) as connection:
        await connection.execute(
            update(sweep_refusals)
            .where(_OPEN, sweep_refusals.c.threshold >= threshold)
            .values(stands=False, over_at=func.now())
        )


async def release_refusals(engine: AsyncEngine) -> None:
    """A person let a whole refusal through: none stands any longer."""
    async with autocommit(engine) as connection:
        await connection.execute(
            update(sweep_refusals).where(_OPEN, sweep_refusals.c.stands).values(stands=False)
        )


async def prune_refusals(engine: AsyncEngine) -> int:
    """Delete the refusals that are older than 30 days; how many there were."""
    old = sweep_refusals.c.refused_at < func.now() - KEPT_FOR
    async with autocommit(engine) as connection:
        return (await connection.execute(delete(sweep_refusals).where(old))).rowcount
