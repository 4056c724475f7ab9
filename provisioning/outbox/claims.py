"""A try at a notice: claimed by one sender at a time, then settled, by the database's clock."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import and_, case, delete, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.database import autocommit
from provisioning.outbox.notices import Kind, bounded
from provisioning.outbox.retry_policy import Fate, Verdict
from provisioning.outbox.signing import LONGEST_SECRET
from provisioning.outbox.store import FAILURE, OWED, URL, readable
from provisioning.schema import notices, terminal_failures
from provisioning.text import storable

LEASE = timedelta(seconds=60)
"""How long a claim keeps others away: longer than a delivery's deadline, shorter than a sweep's
interval, so that what a killed sender had claimed is sent by the next sweep but one at the latest.
"""

LONGEST_BODY = 65_536
"""Bytes. Ours are a few hundred; a longer one was written by somebody else, and is not sent."""

KEPT_FOR = timedelta(days=90)
"""Delivered and given-up notices; a teardown that was given up waits until it is acknowledged."""

DELETED_AT_ONCE, BATCHES = 1_000, 20
"""So that a sweep deletes in short statements, and leaves a large rest to the next ones."""


@dataclass(frozen=True)
class Claim:
    """One try that is this sender's alone. `url` is a secret, and None for a teardown."""

    kind: Kind
    url: str | None = field(repr=False)
    secret: str | None = field(repr=False)
    body: bytes | None = field(repr=False)
    """None if it is longer than is sent."""
    attempts: int
    """This one included."""
    claimed_at: datetime
    failed_at: datetime


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
                    OWED,
                    notices.c.next_attempt_at <= func.now(),
                    FAILURE,
                )
                .values(
                    attempts=notices.c.attempts + 1,
                    next_attempt_at=func.now() + LEASE,
                    last_error=None,
                )
                .returning(
                    notices.c.kind,
                    URL.label("url"),
                    bounded(notices.c.secret, LONGEST_SECRET).label("secret"),
                    case((func.octet_length(notices.c.body) <= LONGEST_BODY, notices.c.body)).label(
                        "body"
                    ),
                    notices.c.attempts,
                    func.clock_timestamp().label("claimed_at"),
                    readable(terminal_failures.c.failed_at).label("failed_at"),
                )
            )
        ).one_or_none()
    return Claim(**{**row._mapping, "kind": Kind(row.kind)}) if row else None


async def record(
    engine: AsyncEngine, notice_id: UUID, attempts: int, verdict: Verdict, receiver: str
) -> None:
    """Write down what a try came to. A settled notice keeps no URL and no secret.

    That it was delivered is recorded even by a sender whose lease ran out. Anything else only as
    long as no later try was begun, whose result counts instead.

    Raises:
        DatabaseError: the database did not do it; the notice stays owed.
    """
    unsettled = [notices.c.id == notice_id, notices.c.delivered_at.is_(None)]
    values: dict[str, Any]
    settled = {"url": None, "secret": None, "receiver": receiver}
    match verdict.fate:
        case Fate.DELIVERED:
            values = {
                "delivered_at": func.now(),
                "given_up_at": None,
                "last_error": None,
                **settled,
            }
        case Fate.GIVEN_UP:
            values = {"given_up_at": func.now(), "last_error": storable(verdict.reason), **settled}
        case Fate.OWED:
            values = {
                "next_attempt_at": func.now() + verdict.wait,
                "last_error": storable(verdict.reason),
            }
    if verdict.fate is not Fate.DELIVERED:
        unsettled.append(notices.c.attempts == attempts)
    async with autocommit(engine) as connection:
        await connection.execute(update(notices).where(*unsettled).values(**values))


async def prune(engine: AsyncEngine) -> int:
    """Delete the notices that were settled long ago; how many.

    Raises:
        DatabaseError: the database did not do it, for instance because the role lacks the right.
    """
    over = func.now() - KEPT_FOR
    old = (
        select(notices.c.id)
        .where(
            or_(
                notices.c.delivered_at < over,
                and_(
                    notices.c.given_up_at < over,
                    or_(
                        notices.c.kind == Kind.WEBHOOK.value, notices.c.acknowledged_at.is_not(None)
                    ),
                ),
            )
        )
        .limit(DELETED_AT_ONCE)
    )
    deleted = 0
    async with autocommit(engine) as connection:
        for _ in range(BATCHES):
            batch = await connection.execute(delete(notices).where(notices.c.id.in_(old)))
            deleted += batch.rowcount
            if batch.rowcount < DELETED_AT_ONCE:
                break
    return deleted
