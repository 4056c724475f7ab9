"""What a sweep sees: the stuck, the unreadable and the number in flight. Reads, never writes."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Row,
    Select,
    Text,
    and_,
    bindparam,
    cast,
    func,
    literal_column,
    not_,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import INTERVAL
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.database import Connection, autocommit, snapshot
from provisioning.schema import SiteId, sites, terminal_failures
from provisioning.site_state import Outcome, moved_on, read_stamps
from provisioning.stamps import (
    INDEXED,
    STARTED,
    STARTED_INSTANT,
    STEP,
    UNREADABLE,
    UNREADABLE_STAMP,
    stuck_before,
)
from provisioning.sweep.preflight import require_ready
from provisioning.text import one_line, site_name

UNREADABLE_LIMIT = 100
"""Unreadable rows that one sweep reads; the total is exact all the same."""


@dataclass(frozen=True)
class Candidate:
    """A site that was stuck when the sweep looked: one attempt of it, named by its stamp."""

    site_id: SiteId
    domain: str
    attempt: str
    started_at: datetime
    step: str

    def __str__(self) -> str:
        return site_name(self.site_id, self.domain)


@dataclass(frozen=True)
class Unreadable:
    """A site in flight whose start stamp is no instant that can be trusted."""

    site_id: SiteId
    domain: str
    stamp: str

    def __str__(self) -> str:
        return site_name(self.site_id, self.domain)


@dataclass(frozen=True)
class Snapshot:
    """One consistent look at the table, by the database's clock.

    `stuck` and `unreadable` are bounded, oldest first; the totals are exact.
    """

    looked_at: datetime
    cutoff: datetime
    stuck: tuple[Candidate, ...]
    stuck_total: int
    unreadable: tuple[Unreadable, ...]
    unreadable_total: int
    in_flight: int
    reaped_last_hour: int
    stuck_beside: int = 0
    """Stuck as well, but none of those that were asked for."""

    def age(self, candidate: Candidate) -> timedelta:
        """How long ago the candidate's attempt started, when the sweep looked."""
        return self.looked_at - candidate.started_at


_CUTOFF = func.now() - bindparam("threshold", type_=INTERVAL)


def stuck_query() -> Select[Any]:
    """The signal: the oldest stuck sites. Binds `threshold` (an interval) and `limit`."""
    return (
        select(
            sites.c.id,
            func.left(cast(sites.c.domain, Text), 253).label("domain"),
            STARTED.label("attempt"),
            STARTED_INSTANT.label("started_at"),
            func.left(STEP, 100).label("step"),
        )
        .where(stuck_before(_CUTOFF))
        .order_by(STARTED_INSTANT, sites.c.id)
        .limit(bindparam("limit"))
    )


def _unreadable_query() -> Select[Any]:
    return (
        select(
            sites.c.id,
            func.left(cast(sites.c.domain, Text), 253).label("domain"),
            func.left(UNREADABLE_STAMP, 200).label("stamp"),
        )
        .where(UNREADABLE)
        .order_by(sites.c.id)
        .limit(UNREADABLE_LIMIT)
    )


_WATCHDOGS_LAST_HOUR = (
    terminal_failures.c.source == literal_column("'watchdog'"),
    not_(terminal_failures.c.by_person),
    terminal_failures.c.failed_at > func.now() - timedelta(hours=1),
)

_NUMBERS = select(
    func.now().label("now"),
    _CUTOFF.label("cutoff"),
    select(func.count()).select_from(sites).where(INDEXED).scalar_subquery().label("in_flight"),
    select(func.count()).where(*_WATCHDOGS_LAST_HOUR).scalar_subquery().label("reaped_last_hour"),
)


async def look(
    engine: AsyncEngine,
    threshold: timedelta,
    limit: int,
    *,
    writes: bool,
    among: ColumnElement[bool] | None = None,
) -> Snapshot:
    """See what is stuck right now, in one snapshot.

    Args:
        threshold: how long ago an attempt must have started, to be stuck.
        limit: the most candidates to read; the total is exact all the same.
        writes: whether the sweep means to act, and so needs the rights to.
        among: see only these, such as what a refused run listed, and of them what is still stuck.

    Raises:
        DatabaseUnready: what is wrong with the database, and what to do.
        DatabaseError: the database did not answer.
    """
    async with snapshot(engine) as connection:
        await require_ready(connection, writes=writes)
        numbers = (await connection.execute(_NUMBERS, {"threshold": threshold})).one()
        chosen = true() if among is None else among
        stuck = (
            await connection.execute(
                stuck_query().where(chosen), {"threshold": threshold, "limit": limit}
            )
        ).all()
        unreadable = (await connection.execute(_unreadable_query())).all()
        return Snapshot(
            looked_at=numbers.now,
            cutoff=numbers.cutoff,
            stuck=tuple(_candidate(row) for row in stuck),
            stuck_total=(
                len(stuck)
                if len(stuck) < limit
                else await _count(
                    connection, and_(stuck_before(_CUTOFF), chosen), threshold=threshold
                )
            ),
            stuck_beside=(
                0
                if among is None
                else await _count(
                    connection, and_(stuck_before(_CUTOFF), not_(among)), threshold=threshold
                )
            ),
            unreadable=tuple(
                Unreadable(row.id, one_line(row.domain), one_line(row.stamp)) for row in unreadable
            ),
            unreadable_total=(
                len(unreadable)
                if len(unreadable) < UNREADABLE_LIMIT
                else await _count(connection, UNREADABLE)
            ),
            in_flight=numbers.in_flight,
            reaped_last_hour=numbers.reaped_last_hour,
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
        .where(*_WATCHDOGS_LAST_HOUR)
        .group_by(terminal_failures.c.flow_run_id)
        .order_by(began.desc())
    )
    async with autocommit(engine) as connection:
        return [PastSweep(*row) for row in await connection.execute(query)]


async def look_again(engine: AsyncEngine, candidate: Candidate) -> Outcome | None:
    """Read one site again: why its attempt is no longer in flight, or None while it is."""
    async with autocommit(engine) as connection:
        return moved_on(await read_stamps(connection, candidate.site_id), candidate.attempt)


def _candidate(row: Row[Any]) -> Candidate:
    return Candidate(row.id, one_line(row.domain), row.attempt, row.started_at, one_line(row.step))


async def _count(connection: Connection, condition: Any, **bounds: Any) -> int:
    return (
        await connection.execute(select(func.count()).select_from(sites).where(condition), bounds)
    ).scalar_one()
