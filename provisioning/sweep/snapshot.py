"""What a sweep sees: the stuck, the unreadable and the number in flight. Reads, never writes."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Row, and_, func, not_, select, true
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.database import Connection, autocommit, snapshot
from provisioning.schema import SiteId, row_of, sites
from provisioning.site_state import Outcome, moved_on, read_stamps, row_at
from provisioning.stamps import (
    BEFORE_DEADLINE,
    DEADLINE,
    HOLD,
    ON_HOLD,
    UNREADABLE,
    UNREADABLE_STAMP,
    stuck_before,
)
from provisioning.sweep.grouping import NO_GROUPS, Groups, grouped, groups_query
from provisioning.sweep.last_hour import NEVER_BUSY, Busiest, busiest
from provisioning.sweep.preflight import require_ready
from provisioning.sweep.queries import (
    CUTOFF,
    LISTED_ASIDE,
    NUMBERS,
    WAITING,
    listed_aside,
    stuck_query,
)
from provisioning.text import one_line, site_name


@dataclass(frozen=True)
class Candidate:
    """A site that was stuck when the sweep looked: one attempt of it, named by its stamp."""

    site_id: SiteId
    domain: str
    attempt: str
    started_at: datetime
    step: str
    step_at: datetime | None = None
    """Since when it stands at its step; None if the platform does not say, or not readably."""

    def __str__(self) -> str:
        return site_name(self.site_id, self.domain)


@dataclass(frozen=True)
class SetAside:
    """A site in flight that is not reaped, and the stamp because of which: unreadable, a hold, a
    deadline."""

    site_id: SiteId
    domain: str
    stamp: str

    def __str__(self) -> str:
        return site_name(self.site_id, self.domain)


@dataclass(frozen=True)
class Snapshot:
    """One consistent look at the table, by the database's clock.

    The lists are bounded, `stuck` with the oldest first; the totals are exact.

    Attributes:
        looked_at: when.
        cutoff: what started before it is stuck.
        stuck: the candidates.
        stuck_total: how many there are.
        unreadable: sites in flight of which nobody can say since when, or until when.
        unreadable_total: how many there are.
        in_flight: how many sites are in flight, the unreadable ones included.
        reaped_last_hour: how many the watchdog reaped in the hour before.
        on_hold: the sites in flight that somebody looks at, with what the hold says.
        on_hold_total: how many there are.
        waiting: the sites that would be stuck but for a deadline of their own, which is not over.
        waiting_total: how many there are.
        groups: all the stuck by last step and by start time.
    """

    looked_at: datetime
    cutoff: datetime
    stuck: tuple[Candidate, ...]
    stuck_total: int
    unreadable: tuple[SetAside, ...]
    unreadable_total: int
    in_flight: int
    reaped_last_hour: int
    stuck_beside: int = 0
    """Stuck as well, but none of those that were asked for."""
    on_hold: tuple[SetAside, ...] = ()
    on_hold_total: int = 0
    waiting: tuple[SetAside, ...] = ()
    waiting_total: int = 0
    groups: Groups = NO_GROUPS
    busiest: Busiest = NEVER_BUSY

    @property
    def threshold(self) -> timedelta:
        """How long ago an attempt must have started, to be stuck."""
        return self.looked_at - self.cutoff

    def age(self, candidate: Candidate) -> timedelta:
        """How long ago the candidate's attempt started, when the sweep looked."""
        return self.looked_at - candidate.started_at


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
        numbers = (await connection.execute(NUMBERS, {"threshold": threshold})).one()
        chosen = true() if among is None else among
        stuck = (
            await connection.execute(
                stuck_query().where(chosen), {"threshold": threshold, "limit": limit}
            )
        ).all()

        async def aside(condition: ColumnElement[bool], stamp: ColumnElement[str]) -> list[Any]:
            query = listed_aside(condition, stamp)
            return list(await connection.execute(query, {"threshold": threshold}))

        unreadable = await aside(UNREADABLE, UNREADABLE_STAMP)
        on_hold = await aside(ON_HOLD, HOLD) if numbers.on_hold else []
        waiting = await aside(WAITING, DEADLINE) if numbers.waiting else []
        groups = NO_GROUPS
        if stuck:
            query = groups_query(and_(stuck_before(CUTOFF), chosen))
            groups = grouped(await connection.execute(query, {"threshold": threshold}))
        return Snapshot(
            looked_at=numbers.now,
            cutoff=numbers.cutoff,
            stuck=tuple(_candidate(row) for row in stuck),
            stuck_total=groups.total,
            stuck_beside=(
                0
                if among is None
                else await _count(
                    connection, and_(stuck_before(CUTOFF), not_(among)), threshold=threshold
                )
            ),
            unreadable=tuple(SetAside(*_shown(row)) for row in unreadable),
            unreadable_total=(
                len(unreadable)
                if len(unreadable) < LISTED_ASIDE
                else await _count(connection, UNREADABLE)
            ),
            in_flight=numbers.in_flight,
            reaped_last_hour=numbers.reaped_last_hour,
            on_hold=tuple(SetAside(*_shown(row)) for row in on_hold),
            on_hold_total=numbers.on_hold,
            waiting=tuple(SetAside(*_shown(row)) for row in waiting),
            waiting_total=numbers.waiting,
            groups=groups,
            busiest=await busiest(connection),
        )


async def look_again(engine: AsyncEngine, candidate: Candidate) -> Outcome | None:
    """Read one site again: why its attempt is no longer in flight, or None while it is."""
    async with autocommit(engine) as connection:
        return moved_on(await read_stamps(connection, candidate.site_id), candidate.attempt)


async def set_aside_since(engine: AsyncEngine, candidate: Candidate) -> str:
    """What keeps sweeps from a candidate since the sweep looked; empty if nothing does."""
    query = select(ON_HOLD.label("on_hold"), BEFORE_DEADLINE.label("waiting"))
    async with autocommit(engine) as connection:
        now = await row_at(connection, candidate.site_id, query.where(row_of(candidate.site_id)))
    if now and now.on_hold:
        return "somebody put it on hold since the sweep looked"
    return "it was given a deadline since the sweep looked" if now and now.waiting else ""


def _candidate(row: Row[Any]) -> Candidate:
    return Candidate(
        site_id=row.id,
        domain=one_line(row.domain),
        attempt=row.attempt,
        started_at=row.started_at,
        step=one_line(row.step),
        step_at=row.step_at,
    )


def _shown(row: Row[Any]) -> tuple[SiteId, str, str]:
    return row.id, one_line(row.domain), one_line(row.stamp)


async def _count(connection: Connection, condition: ColumnElement[bool], **bounds: Any) -> int:
    query = select(func.count()).select_from(sites).where(condition)
    return int((await connection.execute(query, bounds)).scalar_one())
