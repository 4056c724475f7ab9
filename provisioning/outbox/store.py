"""What is owed: listed, claimed by one sender at a time, settled. By the database's clock alone."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    DateTime,
    Row,
    Select,
    and_,
    case,
    cast,
    func,
    literal,
    not_,
    or_,
    select,
)
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.database import Connection, snapshot
from provisioning.http.urls import LONGEST_URL, shown
from provisioning.outbox.notices import LONGEST_DOMAIN, Kind, bounded
from provisioning.schema import notices, terminal_failures
from provisioning.text import one_line, site_name

TAKEN_UP = 500
"""The most owed notices that one sweep takes up; the numbers are exact all the same."""

GIVEN_UP_SHOWN_FOR = timedelta(days=1)
GIVEN_UP_LISTED = 100


@dataclass(frozen=True)
class Notice:
    """A notice as it may be shown: with the scheme and the host of its URL and no more of it."""

    id: UUID
    kind: Kind
    site_id: str
    domain: str
    receiver: str
    """Empty for a teardown, which has no URL of its own."""
    failed_at: datetime
    attempts: int
    next_attempt_at: datetime
    last_error: str
    """Empty before the first try, and from a claim until its result is recorded."""
    signed: bool
    """Whether the site has a key of its own for it."""
    lane: str = field(repr=False)
    """Who shares a turn in a round: the host and port as the URL has them; empty for teardowns."""

    def __str__(self) -> str:
        return f"{self.kind} for {site_name(self.site_id, self.domain)}"


@dataclass(frozen=True)
class Backlog:
    """What is owed at one moment, in turn, and what was given up and is still to be looked at.

    The lists are bounded; the totals are exact, and leave out what is in another sender's hands.
    """

    listed_at: datetime
    owed: tuple[Notice, ...]
    webhooks: int
    teardowns: int
    given_up: tuple[Notice, ...]
    given_up_total: int
    teardowns_given_up: int
    """That nobody has acknowledged, however long ago."""

    def due(self, notice: Notice) -> bool:
        """Whether it may be tried now."""
        return notice.next_attempt_at <= self.listed_at

    def in_hand(self, notice: Notice) -> bool:
        """Whether another sender claimed it a moment ago and has recorded no result yet."""
        return notice.attempts > 0 and not notice.last_error and not self.due(notice)


OWED = and_(notices.c.delivered_at.is_(None), notices.c.given_up_at.is_(None))
IN_HAND = and_(
    notices.c.attempts > 0,
    notices.c.last_error.is_(None),
    notices.c.next_attempt_at > func.now(),
)
_UNACKNOWLEDGED = and_(
    notices.c.kind == Kind.TEARDOWN.value,
    notices.c.given_up_at.is_not(None),
    notices.c.acknowledged_at.is_(None),
)
_GIVEN_UP = or_(notices.c.given_up_at > func.now() - GIVEN_UP_SHOWN_FOR, _UNACKNOWLEDGED)
FAILURE = notices.c.failure_id == terminal_failures.c.id

# What is read is bounded here, so that a row of 8 MB, or one that another program wrote, costs a
# sweep no memory and raises nothing.
URL = bounded(notices.c.url, LONGEST_URL)
_BEFORE_HOST = r"^\s*[A-Za-z]+://(?:[^/?#]*@)?"
HOST = func.lower(
    func.substring(func.coalesce(notices.c.receiver, URL), _BEFORE_HOST + "([^/?#:]*)")
)
_HOST_AND_PORT = func.lower(func.substring(URL, _BEFORE_HOST + "([^/?#]*)"))
_LANE = case((notices.c.kind == Kind.TEARDOWN.value, ""), else_=func.concat("//", _HOST_AND_PORT))


def readable(instant: ColumnElement[datetime]) -> ColumnElement[datetime]:
    """An instant that Python has, too: PostgreSQL knows infinity and the year 20000."""
    first, last = (cast(literal(f"{year}-01-01Z"), DateTime(True)) for year in (2000, 3000))
    return func.least(func.greatest(instant, first), last)


def listed(*more: ColumnElement[Any]) -> Select[Any]:
    """What a notice is shown by, and more."""
    return select(
        notices.c.id,
        notices.c.kind,
        URL.label("url"),
        notices.c.receiver,
        notices.c.attempts,
        readable(notices.c.next_attempt_at).label("next_attempt_at"),
        func.left(notices.c.last_error, 300).label("last_error"),
        notices.c.secret.is_not(None).label("signed"),
        _LANE.label("lane"),
        terminal_failures.c.site_id,
        func.left(terminal_failures.c.domain, LONGEST_DOMAIN).label("domain"),
        readable(terminal_failures.c.failed_at).label("failed_at"),
        *more,
    ).join_from(notices, terminal_failures, FAILURE)


def _in_turn(limit: int, *, teardowns: bool) -> list[ColumnElement[Any]]:
    """The order in which owed notices are taken up.

    Teardowns first, but for no more than half of the places; then one notice for each receiver,
    then the next one for each, those that were never tried before those that were. What is not due
    comes last, to be shown.
    """
    torn_down = notices.c.kind == Kind.TEARDOWN.value
    turn = func.row_number().over(
        partition_by=_LANE, order_by=[notices.c.attempts, notices.c.next_attempt_at, notices.c.id]
    )
    early = and_(torn_down, turn <= limit // 2) if teardowns else literal(False)
    return [
        case((early, 0), (torn_down, 2), else_=1),
        case((torn_down, 0), else_=turn),
        notices.c.attempts,
        notices.c.next_attempt_at,
        notices.c.id,
    ]


async def list_owed(engine: AsyncEngine, limit: int, *, teardowns: bool) -> Backlog:
    """See what is owed, in one snapshot.

    Args:
        limit: the most notices to read.
        teardowns: whether teardowns can be sent. If not, they come last, so that they keep nothing
            else from being sent.

    Raises:
        DatabaseError: the database did not answer.
    """
    async with snapshot(engine) as connection:
        due = notices.c.next_attempt_at <= func.now()
        owed = [
            row
            for when in (due, not_(due))
            for row in await connection.execute(
                listed()
                .where(OWED, when)
                .order_by(*_in_turn(limit, teardowns=teardowns))
                .limit(limit)
            )
        ]
        given_up = await connection.execute(
            listed()
            .where(_GIVEN_UP)
            .order_by(not_(_UNACKNOWLEDGED), notices.c.given_up_at.desc())
            .limit(GIVEN_UP_LISTED)
        )
        numbers = (
            await connection.execute(
                select(
                    func.now().label("now"),
                    func.count().filter(notices.c.kind == Kind.WEBHOOK.value).label("webhooks"),
                    func.count().filter(notices.c.kind == Kind.TEARDOWN.value).label("teardowns"),
                ).where(OWED, not_(IN_HAND))
            )
        ).one()
        return Backlog(
            listed_at=numbers.now,
            owed=tuple(notice_of(row) for row in owed[:limit]),
            webhooks=numbers.webhooks,
            teardowns=numbers.teardowns,
            given_up=tuple(notice_of(row) for row in given_up),
            given_up_total=await _count(connection, _GIVEN_UP),
            teardowns_given_up=await _count(connection, _UNACKNOWLEDGED),
        )


async def _count(connection: Connection, which: ColumnElement[bool]) -> int:
    return (
        await connection.execute(select(func.count()).select_from(notices).where(which))
    ).scalar_one()


def notice_of(row: Row[Any]) -> Notice:
    """A row of `listed`. Raises on none, whatever it holds."""
    return Notice(
        id=row.id,
        kind=Kind(row.kind),
        site_id=row.site_id,
        domain=one_line(row.domain),
        receiver=row.receiver or (shown(row.url) if row.url is not None else ""),
        failed_at=row.failed_at,
        attempts=row.attempts,
        next_attempt_at=row.next_attempt_at,
        last_error=one_line(row.last_error, 300),
        signed=row.signed,
        lane=row.lane,
    )
