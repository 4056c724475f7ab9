"""What the doctor finds: one line for each thing that it looked at."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

SILENCE = timedelta(minutes=15)
"""Three intervals without a sweep that ended."""


class Level(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARNING = "warning"
    """Sweeps work. Something is unsafe, or a person should look at it."""
    WRONG = "wrong"
    """Sweeps are blind, powerless or do not start until it is mended."""


@dataclass(frozen=True)
class Check:
    """What was looked at, how it is, and what to do if it is not as it should be."""

    subject: str
    level: Level
    finding: str


def ok(subject: str, finding: str) -> Check:
    """All is well."""
    return Check(subject, Level.OK, finding)


def warning(subject: str, finding: str) -> Check:
    """Worth a look."""
    return Check(subject, Level.WARNING, finding)


def wrong(subject: str, finding: str) -> Check:
    """To be mended."""
    return Check(subject, Level.WRONG, finding)
