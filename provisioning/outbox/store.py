"""What is owed: listed, claimed by one sender at a time, settled. By the database's clock alone."""

import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Row, Select, and_, func, not_, select, update
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.database import Connection, autocommit, snapshot
from provisioning.http.urls import shown
from provisioning.outbox.notices import Kind
from provisioning.outbox.retry_policy import Fate, Verdict
from provisioning.schema import notices, terminal_failures
from provisioning.text import one_line, site_name, storable

LEASE = timedelta(seconds=60)
"""How long a claim keeps others away: longer than a delivery's deadline, shorter than a sweep's
interval, so that what a killed sender had claimed is sent by the next sweep but one at the latest.
"""

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

    def __str__(self) -> str:
        return f"{self.kind} for {site_name(self.site_id, self.domain)}"


@dataclass(frozen=True)
class Backlog:
    """What is owed at one moment, the longest due first, and what was given up within a day.

    The lists are bounded; the totals are exact, and leave out what is in another sender's hands.
    """

    listed_at: datetime
    owed: tuple[Notice, ...]
    webhooks: int
    teardowns: int
    given_up: tuple[Notice, ...]
    given_up_total: int

    def due(self, notice: Notice) -> bool:
        """Whether it may be tried now."""
        return notice.next_attempt_at <= self.listed_at

    def in_hand(self, notice: Notice) -> bool:
        """Whether another sender claimed it a moment ago and has recorded no result yet."""
        return notice.attempts > 0 and not notice.last_error and not self.due(notice)


@dataclass(frozen=True)
class Claim:
    """One try that is this sender's alone. `url` is a secret, and None for a teardown."""

    kind: Kind
    url: str | None = field(repr=False)
    body: bytes = field(repr=False)
    attempts: int
    """This one included."""
    claimed_at: datetime
    failed_at: datetime


_OWED = and_(notices.c.delivered_at.is_(None), notices.c.given_up_at.is_(None))
_IN_HAND = and_(
    notices.c.attempts > 0,
    notices.c.last_error.is_(None),
    notices.c.next_attempt_at > func.now(),
)
_GIVEN_UP = notices.c.given_up_at > func.now() - GIVEN_UP_SHOWN_FOR
_FAILURE = notices.c.failure_id == terminal_failures.c.id


def _listed() -> Select[Any]:
    return select(
        notices.c.id,
        notices.c.kind,
        notices.c.url,
        notices.c.body,
        notices.c.attempts,
        notices.c.next_attempt_at,
        notices.c.last_error,
        terminal_failures.c.site_id,
        terminal_failures.c.failed_at,
    ).join_from(notices, terminal_failures, _FAILURE)


async def list_owed(engine: AsyncEngine, limit: int, *, teardowns: bool) -> Backlog:
    """See what is owed, in one snapshot.

    Args:
        limit: the most notices to read.
        teardowns: whether teardowns can be sent. Where they can't they come last, so that they
            keep nothing else from being sent.

    Raises:
        DatabaseError: the database did not answer.
    """
    last = [] if teardowns else [notices.c.kind == Kind.TEARDOWN.value]
    async with snapshot(engine) as connection:
        owed = await connection.execute(
            _listed()
            .where(_OWED)
            .order_by(*last, notices.c.next_attempt_at, notices.c.id)
            .limit(limit)
        )
        given_up = await connection.execute(
            _listed().where(_GIVEN_UP).order_by(notices.c.given_up_at.desc()).limit(GIVEN_UP_LISTED)
        )
        numbers = (
            await connection.execute(
                select(
                    func.now().label("now"),
                    func.count().filter(notices.c.kind == Kind.WEBHOOK.value).label("webhooks"),
                    func.count().filter(notices.c.kind == Kind.TEARDOWN.value).label("teardowns"),
                ).where(_OWED, not_(_IN_HAND))
            )
        ).one()
        return Backlog(
            listed_at=numbers.now,
            owed=tuple(_notice(row) for row in owed),
            webhooks=numbers.webhooks,
            teardowns=numbers.teardowns,
            given_up=tuple(_notice(row) for row in given_up),
            given_up_total=await _count_given_up(connection),
        )


async def claim(engine: AsyncEngine, notice_id: UUID) -> Claim | None:
    """Take one try, for the length of the lease; None if another sender holds it.

    One conditional UPDATE, committed before anything is sent: of two senders one gets it, and no
    lock is held while the network is used. A sender that dies here leaves the notice owed.

    Raises:
        DatabaseError: the database did not do it.
    """
    async with autocommit(engine) as connection:
        row = (
            await connection.execute(
                update(notices)
                .where(
                    notices.c.id == notice_id,
                    _OWED,
                    notices.c.next_attempt_at <= func.now(),
                    _FAILURE,
                )
                .values(
                    attempts=notices.c.attempts + 1,
                    next_attempt_at=func.now() + LEASE,
                    last_error=None,
                )
                .returning(
                    notices.c.kind,
                    notices.c.url,
                    notices.c.body,
                    notices.c.attempts,
                    func.clock_timestamp().label("claimed_at"),
                    terminal_failures.c.failed_at,
                )
            )
        ).one_or_none()
    return Claim(**{**row._mapping, "kind": Kind(row.kind)}) if row else None


async def record(engine: AsyncEngine, notice_id: UUID, attempts: int, verdict: Verdict) -> None:
    """Write down what a try came to.

    That it was delivered is recorded even by a sender whose lease ran out. Anything else only as
    long as no later try was begun, whose result counts instead.

    Raises:
        DatabaseError: the database did not do it; the notice stays owed.
    """
    unsettled = [notices.c.id == notice_id, notices.c.delivered_at.is_(None)]
    values: dict[str, Any]
    match verdict.fate:
        case Fate.DELIVERED:
            values = {"delivered_at": func.now(), "given_up_at": None, "last_error": None}
        case Fate.GIVEN_UP:
            values = {"given_up_at": func.now(), "last_error": storable(verdict.reason)}
        case Fate.OWED:
            values = {
                "next_attempt_at": func.now() + verdict.wait,
                "last_error": storable(verdict.reason),
            }
    if verdict.fate is not Fate.DELIVERED:
        unsettled.append(notices.c.attempts == attempts)
    async with autocommit(engine) as connection:
        await connection.execute(update(notices).where(*unsettled).values(**values))


async def _count_given_up(connection: Connection) -> int:
    return (
        await connection.execute(select(func.count()).select_from(notices).where(_GIVEN_UP))
    ).scalar_one()


def _notice(row: Row[Any]) -> Notice:
    return Notice(
        id=row.id,
        kind=Kind(row.kind),
        site_id=row.site_id,
        domain=one_line(json.loads(row.body)["data"]["domain"]),
        receiver=shown(row.url) if row.url is not None else "",
        failed_at=row.failed_at,
        attempts=row.attempts,
        next_attempt_at=row.next_attempt_at,
        last_error=one_line(row.last_error, 300),
    )
