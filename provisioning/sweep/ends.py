"""When sweeps last ended, kept beside what they sweep: for who can't or may not ask Prefect."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.database import autocommit
from provisioning.schema import sweep_ends


@dataclass(frozen=True)
class LastEnd:
    """The newest end of a sweep of this database.

    Attributes:
        state: the name of the state in which it ended.
        ended_at: when, by the database's clock.
        looked_at: now, by the same clock.
    """

    state: str
    ended_at: datetime
    looked_at: datetime


async def record_end(engine: AsyncEngine, deployment: str, flow_run_id: UUID, state: str) -> None:
    """A sweep ended. Of each deployment the newest end is kept.

    Args:
        deployment: its id in Prefect; empty for a run without one.

    Raises:
        DatabaseError: the database did not take it.
    """
    end = insert(sweep_ends).values(
        deployment=deployment, flow_run_id=flow_run_id, ended_at=func.clock_timestamp(), state=state
    )
    news = {name: end.excluded[name] for name in ("flow_run_id", "ended_at", "state")}
    async with autocommit(engine) as connection:
        await connection.execute(
            end.on_conflict_do_update(index_elements=["deployment"], set_=news)
        )


async def read_last_end(engine: AsyncEngine) -> LastEnd | None:
    """The newest end of any deployment's sweep; None where none has ended yet.

    Raises:
        DatabaseError: the database did not answer.
    """
    ends = sweep_ends.c
    query = (
        select(ends.state, ends.ended_at, func.clock_timestamp())
        .order_by(ends.ended_at.desc())
        .limit(1)
    )
    async with autocommit(engine) as connection:
        row = (await connection.execute(query)).one_or_none()
    return LastEnd(*row) if row else None
