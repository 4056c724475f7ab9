"""What a person does with notices: look them up, have them sent again, acknowledge them."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from sqlalchemy import ColumnElement, case, func, not_, select, true, update
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.database import autocommit
from provisioning.http.urls import LONGEST_URL, spellings
from provisioning.outbox.notices import Kind, bounded
from provisioning.outbox.signing import LONGEST_SECRET
from provisioning.outbox.store import FAILURE, HOST, IN_HAND, OWED, Notice, listed, notice_of
from provisioning.schema import notices, row_of, terminal_failures
from provisioning.site_state import row_at
from provisioning.stamps import WEBHOOK, WEBHOOK_SECRET


class Standing(StrEnum):
    """How a notice stands."""

    OWED = "owed"
    GIVEN_UP = "given up"
    ACKNOWLEDGED = "given up, acknowledged"
    DELIVERED = "delivered"


@dataclass(frozen=True)
class Chosen:
    """Which notices a person means: these ids, those of a receiver's host, or all.

    A teardown has no host of its own: it is meant by its id, or by all.
    """

    ids: Sequence[UUID] = ()
    host: str | None = None
    all: bool = False


async def look_up(
    engine: AsyncEngine, chosen: Chosen, *, limit: int = 500
) -> list[tuple[Standing, Notice]]:
    """The chosen notices that are not delivered, teardowns first, then the longest failed.

    Raises:
        DatabaseError: the database did not answer.
    """
    standing = case(
        (OWED, Standing.OWED.value),
        (notices.c.acknowledged_at.is_not(None), Standing.ACKNOWLEDGED.value),
        else_=Standing.GIVEN_UP.value,
    )
    query = (
        listed(standing.label("standing"))
        .where(_UNDELIVERED, _meant(chosen))
        .order_by(notices.c.kind, terminal_failures.c.failed_at, notices.c.id)
        .limit(limit)
    )
    async with autocommit(engine) as connection:
        rows = await connection.execute(query)
        return [(Standing(row.standing), notice_of(row)) for row in rows]


async def resend(engine: AsyncEngine, chosen: Chosen) -> list[UUID]:
    """Make the chosen notices due at once, those that were given up too; the ids of them.

    The next sweep sends them, with the ids and the bodies that they always had. A webhook goes to
    the URL, and is signed with the key, that the site's metadata holds by now; it stays as it is if
    there is no URL there any more. What is being sent at this moment is left alone.

    Raises:
        DatabaseError: the database did not do it.
    """
    wanted = (
        select(notices.c.id, notices.c.kind, terminal_failures.c.site_id)
        .join_from(notices, terminal_failures, FAILURE)
        .where(_UNDELIVERED, not_(IN_HAND), _meant(chosen))
    )
    made_due: list[UUID] = []
    async with autocommit(engine) as connection:
        for notice in (await connection.execute(wanted)).all():
            again = (
                update(notices)
                .where(notices.c.id == notice.id, _UNDELIVERED, not_(IN_HAND))
                .values(
                    attempts=0,
                    next_attempt_at=func.now(),
                    given_up_at=None,
                    acknowledged_at=None,
                    last_error=None,
                )
                .returning(notices.c.id)
            )
            if notice.kind == Kind.WEBHOOK.value:
                url, secret = bounded(WEBHOOK, LONGEST_URL), bounded(WEBHOOK_SECRET, LONGEST_SECRET)
                again = again.where(row_of(notice.site_id), url.regexp_match(r"\S")).values(
                    url=url, secret=case((secret.regexp_match(r"\S"), secret))
                )
            if await row_at(connection, notice.site_id, again):
                made_due.append(notice.id)
    return made_due


async def acknowledge(engine: AsyncEngine, chosen: Chosen) -> list[UUID]:
    """Say of the chosen notices that were given up that a person has seen to them; the ids of them.

    Raises:
        DatabaseError: the database did not do it.
    """
    done = (
        update(notices)
        .where(
            notices.c.given_up_at.is_not(None), notices.c.acknowledged_at.is_(None), _meant(chosen)
        )
        .values(acknowledged_at=func.now())
        .returning(notices.c.id)
    )
    async with autocommit(engine) as connection:
        return list((await connection.execute(done)).scalars())


_UNDELIVERED = notices.c.delivered_at.is_(None)


def _meant(chosen: Chosen) -> ColumnElement[bool]:
    if chosen.all:
        return true()
    if chosen.host is None:
        return notices.c.id.in_(chosen.ids)
    return HOST.in_(spellings(chosen.host))
