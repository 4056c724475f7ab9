"""What the watchdog reaped without a person: in the last hour, and at its busiest."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import ColumnElement, and_, func, literal_column, not_, select
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.database import Connection, autocommit
from provisioning.schema import terminal_failures

_WATCHDOGS = and_(
    terminal_failures.c.source == literal_column("'watchdog'"),
    not_(terminal_failures.c.by_person),
    # A row of the future, such as a clock that was wrong leaves behind, is not of the last hour.
    terminal_failures.c.failed_at <= func.now(),
)

WATCHDOGS_LAST_HOUR = (
    _WATCHDOGS,
    terminal_failures.c.failed_at > func.now() - timedelta(hours=1),
)

LOOKED_BACK = timedelta(days=30)
"""How far back the busiest run and hour are looked for."""


@dataclass(frozen=True)
class Busiest:
    """The most that one run and one hour reaped in the last 30 days: what the caps should fit."""

    run: int
    hour: int


NEVER_BUSY = Busiest(0, 0)


@dataclass(frozen=True)
class PastSweep:
    """What one run reaped: when it began to, and how many."""

    flow_run_id: UUID | None
    began: datetime
    reaped: int


async def last_hour(engine: AsyncEngine) -> list[PastSweep]:
    """The sweeps that make up the hourly cap, the newest first."""
    began = func.min(terminal_failures.c.failed_at)
    query = (
        select(terminal_failures.c.flow_run_id, began.label("began"), func.count().label("reaped"))
        .where(*WATCHDOGS_LAST_HOUR)
        .group_by(terminal_failures.c.flow_run_id)
        .order_by(began.desc())
    )
    async with autocommit(engine) as connection:
        return [PastSweep(*row) for row in await connection.execute(query)]


async def busiest(connection: Connection) -> Busiest:
    """The busiest run and the busiest hour, wherever the hour begins, of the last 30 days.

    Raises:
        DatabaseError: the database did not answer.
    """
    recent = and_(_WATCHDOGS, terminal_failures.c.failed_at > func.now() - LOOKED_BACK)
    runs = (
        select(func.count().label("reaped"))
        .where(recent)
        .group_by(terminal_failures.c.flow_run_id)
        .subquery()
    )
    in_an_hour: ColumnElement[int] = literal_column(
        "count(*) OVER (ORDER BY failed_at RANGE BETWEEN '1 hour' PRECEDING AND CURRENT ROW)"
    )
    hours = select(in_an_hour.label("reaped")).where(recent).subquery()
    row = (
        await connection.execute(
            select(
                select(func.coalesce(func.max(runs.c.reaped), 0)).scalar_subquery().label("run"),
                select(func.coalesce(func.max(hours.c.reaped), 0)).scalar_subquery().label("hour"),
            )
        )
    ).one()
    return Busiest(row.run, row.hour)
