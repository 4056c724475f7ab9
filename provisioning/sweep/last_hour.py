"""The sweeps of the last hour, which its cap counts: the watchdog's own, without a person."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import func, literal_column, not_, select
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.database import autocommit
from provisioning.schema import terminal_failures

WATCHDOGS_LAST_HOUR = (
    terminal_failures.c.source == literal_column("'watchdog'"),
    not_(terminal_failures.c.by_person),
    terminal_failures.c.failed_at > func.now() - timedelta(hours=1),
    # A row of the future, such as a clock that was wrong leaves behind, is not of the last hour.
    terminal_failures.c.failed_at <= func.now(),
)


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
