"""What a delivery comes to: delivered, given up, or owed until later. Pure decisions."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from provisioning.http.client import Answer, Reply, Unsendable
from provisioning.http.retry_after import retry_after
from provisioning.outbox.notices import Kind

BACKOFF = [
    timedelta(minutes=4),  # just below the sweep's interval, so that the very next one tries again
    timedelta(minutes=15),
    timedelta(hours=1),
    timedelta(hours=3),
    timedelta(hours=6),
    timedelta(hours=12),
]
"""How long to wait after each failed try; the last one again and again."""

GIVE_UP_AFTER = timedelta(days=3)
"""Counted from the failure: no try is put off past it."""

FEWEST_ATTEMPTS = 5
"""None is given up before: a teardown may have waited for days for its URL to be set."""

SPREAD = 0.2
"""The most by which a wait is drawn out, so that what failed together does not return together. The
first wait stays below the sweep's interval."""

_GONE = 410


class Fate(StrEnum):
    """What became of a delivery."""

    DELIVERED = "delivered"
    OWED = "still owed"
    GIVEN_UP = "given up"


@dataclass(frozen=True)
class Verdict:
    """The fate, the reason for people, and for what is owed how long to wait at least."""

    fate: Fate
    reason: str
    wait: timedelta = timedelta(0)


def judge(
    kind: Kind, reply: Reply, *, attempts: int, failed_at: datetime, now: datetime, jitter: float
) -> Verdict:
    """Decide over one delivery.

    Args:
        attempts: how many there were, this one included.
        failed_at: when the site was failed.
        now: the database's clock.
        jitter: from 0 to 1, by chance: how much of the spread is added to the wait.
    """
    if isinstance(reply, Unsendable):
        return Verdict(Fate.GIVEN_UP, reply.reason)
    wait, reason = _backoff(attempts), str(reply)
    if isinstance(reply, Answer):
        status, reason = reply.status, f"answered {reply.status}"
        if 200 <= status < 300:
            return Verdict(Fate.DELIVERED, reason)
        if status == _GONE:
            # A 404 says nothing of the kind: a mistyped path answers it to everything.
            return (
                Verdict(Fate.DELIVERED, f"{reason}: gone already")
                if kind is Kind.TEARDOWN
                else Verdict(Fate.GIVEN_UP, f"{reason}: the receiver wants no more")
            )
        if 300 <= status < 400:
            reason = f"{reason}: redirects are not followed"
        wait = max(wait, retry_after(reply.retry_after, now))
    wait *= 1 + SPREAD * jitter
    if attempts >= FEWEST_ATTEMPTS and now + wait > failed_at + GIVE_UP_AFTER:
        return Verdict(Fate.GIVEN_UP, f"{reason}, after {attempts} attempts")
    return Verdict(Fate.OWED, reason, wait)


def _backoff(attempts: int) -> timedelta:
    return BACKOFF[min(max(attempts, 1), len(BACKOFF)) - 1]
