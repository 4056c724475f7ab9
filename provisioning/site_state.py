"""How a site stands: its stamps as they are now, and what became of an attempt."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from sqlalchemy import select

from provisioning.schema import sites
from provisioning.stamps import COMPLETED, FAILED, STARTED

if TYPE_CHECKING:  # the errors of a connection speak of outcomes
    from provisioning.database import Connection


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


async def read_stamps(connection: Connection, site_id: int) -> Stamps | None:
    """The stamps of one site as they are committed now; None if there is no such row."""
    row = (
        await connection.execute(
            select(
                STARTED.label("attempt"),
                COMPLETED.is_not(None).label("completed"),
                FAILED.is_not(None).label("failed"),
            ).where(sites.c.id == site_id)
        )
    ).one_or_none()
    return Stamps(row.attempt, row.completed, row.failed) if row else None
