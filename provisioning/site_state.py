"""How a site stands: its stamps as they are now, and what became of an attempt."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, Executable, Row, Select, select

from provisioning.database import Connection
from provisioning.errors import DatabaseError
from provisioning.schema import SiteId, row_of
from provisioning.stamps import COMPLETED, FAILED, STARTED


class Outcome(StrEnum):
    """Exactly one for each candidate of a sweep; their sum is the number found."""

    REAPED = "reaped"
    FINISHED = "finished"
    """Completed meanwhile."""
    ALREADY_FAILED = "already_failed"
    RESTARTED = "restarted"
    """Another attempt runs now."""
    VANISHED = "vanished"
    """The row was deleted."""
    BUSY = "busy"
    """Somebody holds the row, or changes it under our eyes: the next sweep looks again."""
    ERRORED = "errored"
    NOT_REACHED = "not_reached"
    """The run's time was up, or the database was gone."""
    WOULD_REAP = "would_reap"
    """Still stuck at the re-check of a dry run."""


@dataclass(frozen=True)
class Stamps:
    """The stamps of one site as they were read, at one moment."""

    attempt: str | None
    completed: bool
    failed: bool


def moved_on(now: Stamps | None, attempt: str) -> Outcome | None:
    """Why the attempt is no longer in flight; None while it is.

    A restart is looked at first: the end stamps of a newer attempt say nothing about this one.
    """
    if now is None:
        return Outcome.VANISHED
    if now.attempt != attempt:
        return Outcome.RESTARTED
    if now.completed:
        return Outcome.FINISHED
    if now.failed:
        return Outcome.ALREADY_FAILED
    return None


async def read_stamps(connection: Connection, site_id: SiteId) -> Stamps | None:
    """The stamps of one site as they are committed now; None if there is no such row."""
    return stamps_in(await row_at(connection, site_id, stamps_query(site_id)))


def stamps_query(site_id: SiteId, *more: ColumnElement[Any]) -> Select[Any]:
    """What `stamps_in` reads of one site, and more beside it."""
    return select(
        STARTED.label("attempt"),
        COMPLETED.is_not(None).label("completed"),
        FAILED.is_not(None).label("failed"),
        *more,
    ).where(row_of(site_id))


def stamps_in(row: Row[Any] | None) -> Stamps | None:
    """The stamps in a row of `stamps_query`."""
    return Stamps(row.attempt, row.completed, row.failed) if row else None


async def row_at(
    connection: Connection,
    site_id: SiteId,
    statement: Executable,
    values: Mapping[str, Any] | None = None,
) -> Row[Any] | None:
    """What a statement on one site gives: a row, or None.

    None as well for an id that the platform's column can't hold: no site has it.

    Args:
        connection: in autocommit.

    Raises:
        DatabaseError: the database did not do it.
    """
    try:
        return (await connection.execute(statement, values)).one_or_none()
    except DatabaseError as error:
        if error.unreadable and not await _is_an_id(connection, site_id):
            return None
        raise


async def _is_an_id(connection: Connection, site_id: SiteId) -> bool:
    """Whether the column could hold it. If so, the error was another's, such as a trigger's."""
    try:
        await connection.execute(select(1).where(row_of(site_id)))
    except DatabaseError as error:
        if error.unreadable:
            return False
        raise
    return True
