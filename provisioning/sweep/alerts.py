"""Whom a sweep's end wakes: an alert is for a situation, not for a run."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from provisioning.sweep.result import Ending

AGAIN_AFTER = timedelta(hours=6)
"""How long a situation lasts before a person is told of it again."""


class Trouble(StrEnum):
    """The kinds of trouble, each a situation of its own."""

    REFUSED = Ending.REFUSED.value
    INCOMPLETE = Ending.INCOMPLETE.value
    FAILED = Ending.FAILED.value
    """The sweep could not look, or its time was up."""


class Moment(StrEnum):
    """Where in a situation an alert is sent."""

    FIRST = "first"
    AGAIN = "again"
    OVER = "over"


@dataclass(frozen=True)
class Told:
    """The last alert of a kind: when it was sent, at which moment, and since when it lasted."""

    at: datetime
    moment: Moment
    since: datetime


@dataclass(frozen=True)
class Alert:
    """What a person is to be told now."""

    trouble: Trouble
    moment: Moment
    since: datetime

    def subject(self, run: str) -> str:
        """The line that a phone shows.

        Args:
            run: the name of the run whose end it tells of.
        """
        since = f"{self.since:%Y-%m-%d %H:%M} UTC"
        match self.moment:
            case Moment.FIRST:
                return f"{self.trouble}: {run}"
            case Moment.AGAIN:
                return f"Still {self.trouble}, since {since}: {run}"
            case Moment.OVER:
                return f"Over: {self.trouble} since {since}. {run} ended otherwise"


_SHOWS_TO_BE_OVER = {
    Ending.CLEAN: set(Trouble),
    Ending.REAPED: set(Trouble),
    # A sweep that refuses could look, and says nothing of the sites that it did not touch.
    Ending.REFUSED: {Trouble.FAILED},
    Ending.INCOMPLETE: {Trouble.FAILED, Trouble.REFUSED},
}


def decide(ended: str, told: Mapping[Trouble, Told], now: datetime) -> list[Alert]:
    """The alerts for the end of a sweep.

    Args:
        ended: the name of its state; any that is no `Ending` means that it could not look.
        told: the last alert of each kind that somebody can have got. One that was lost is none, so
            that the next red run tells again.
        now: when the sweep ended.
    """
    ending = Ending(ended) if ended in list(Ending) else None
    open_since = {t: last.since for t, last in told.items() if last.moment is not Moment.OVER}
    alerts = [
        Alert(trouble, Moment.OVER, since)
        for trouble, since in open_since.items()
        if ending and trouble in _SHOWS_TO_BE_OVER.get(ending, ())
    ]
    if ending and not ending.red:
        return alerts
    trouble = Trouble(ending.value) if ending else Trouble.FAILED
    if trouble not in open_since:
        alerts.append(Alert(trouble, Moment.FIRST, now))
    elif now - told[trouble].at >= AGAIN_AFTER:
        alerts.append(Alert(trouble, Moment.AGAIN, open_since[trouble]))
    return alerts
