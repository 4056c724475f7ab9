"""What becomes of a candidate, decided from its row as it is now."""

from dataclasses import dataclass
from enum import StrEnum


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
class Standing:
    """The stamps of one site at one moment."""

    attempt: str | None
    completed: bool
    failed: bool


def moved_on(now: Standing | None, attempt: str) -> Outcome | None:
    """How the attempt left the flight; None while it is still in flight.

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
