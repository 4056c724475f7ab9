"""How a sweep ends: the name of its state and the message that holds the numbers."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from provisioning.outbox.dispatcher import Deliveries
from provisioning.site_state import Outcome
from provisioning.sweep.approvals import Refusal
from provisioning.sweep.caps import Caps
from provisioning.sweep.snapshot import Candidate, Snapshot
from provisioning.text import count, duration, sentences

NEAR = 0.8
"""The part of a cap from which a run says that the refusal is near."""


class Ending(StrEnum):
    """The states in which a run ends by itself."""

    CLEAN = "Clean"
    REAPED = "Reaped"
    REHEARSED = "Rehearsed"
    REFUSED = "Refused"
    INCOMPLETE = "Incomplete"
    FAILED = "Failed"
    """It could not look, or could not do what a person asked for."""

    @property
    def red(self) -> bool:
        """Whether a person must look."""
        return self in (Ending.REFUSED, Ending.INCOMPLETE, Ending.FAILED)


@dataclass(frozen=True)
class Result:
    """What became of one candidate, and the reason where there is more to say.

    Attributes:
        marked_again: how often the mark of this attempt was gone and set again, this time included.
        set_aside: whether it is busy because of a hold or a deadline, and not because of a lock.
    """

    candidate: Candidate
    outcome: Outcome
    reason: str = ""
    marked_again: int = 0
    set_aside: bool = False

    def __str__(self) -> str:
        again = "once" if self.marked_again == 1 else f"{self.marked_again:,} times"
        lost = f"its mark was gone {again} and is set again" if self.marked_again else ""
        return ": ".join(filter(None, [in_words(self.outcome), lost, self.reason]))


_IN_WORDS = {
    Outcome.REAPED: "reaped",
    Outcome.WOULD_REAP: "would be reaped",
    Outcome.FINISHED: "finished meanwhile",
    Outcome.ALREADY_FAILED: "failed by somebody else meanwhile",
    Outcome.RESTARTED: "restarted meanwhile",
    Outcome.VANISHED: "deleted meanwhile",
    Outcome.BUSY: "busy, left to the next sweep",
    Outcome.ERRORED: "errored",
    Outcome.NOT_REACHED: "not reached",
}


def in_words(outcome: Outcome) -> str:
    """An outcome as operators read it."""
    return _IN_WORDS[outcome]


def tally(results: Sequence[Result]) -> str:
    """The outcomes and their numbers: "3 reaped, 1 finished meanwhile"."""
    numbers = Counter(result.outcome for result in results)
    return ", ".join(f"{numbers[o]:,} {in_words(o)}" for o in Outcome if numbers[o])


@dataclass(frozen=True)
class NotLookedUp:
    """What is owed could not be looked up. It stays owed, and is never taken for nothing."""

    reason: str

    def __str__(self) -> str:
        return f"not looked up and left to the next sweep, since {self.reason.rstrip('.')}"


NoticesSent = Deliveries | NotLookedUp | None
"""What came of the notices; None where a dry run sends none."""


LONG = 2
"""From so many thresholds on, a site that is busy at its re-check is nobody's passing business."""

LOST_OFTEN = 2
"""From so many times on, a mark that is gone again was not lost to a single stale write."""


def stays_busy(result: Result, snapshot: Snapshot) -> bool:
    """Whether somebody holds a site that has been stuck for long."""
    long = snapshot.age(result.candidate) >= LONG * snapshot.threshold
    return result.outcome is Outcome.BUSY and long and not result.set_aside


def is_trouble(result: Result, snapshot: Snapshot) -> bool:
    """Whether a person must look at what became of a site, however many others went well."""
    return (
        result.outcome in (Outcome.ERRORED, Outcome.NOT_REACHED)
        or stays_busy(result, snapshot)
        or result.marked_again >= LOST_OFTEN
    )


def conclude(
    snapshot: Snapshot,
    results: Sequence[Result],
    *,
    dry_run: bool,
    near: str | None,
    approves: Refusal | None,
    notices: NoticesSent,
    note: str | None = None,
) -> tuple[Ending, str]:
    """The state of a run that was not refused, and its message."""
    numbers = Counter(result.outcome for result in results)
    ending = Ending.CLEAN
    if numbers[Outcome.REAPED]:
        ending = Ending.REAPED
    if any(is_trouble(result, snapshot) for result in results) or _left_over(notices):
        ending = Ending.INCOMPLETE
    if dry_run:
        ending = Ending.REHEARSED
    return ending, sentences(
        *(["Dry run, nothing was changed"] if dry_run else []),
        *([f"Approves {approves}"] if approves else []),
        *([f"Note: {note.rstrip('.')}"] if note else []),
        *_found(snapshot, results, approves),
        *_trouble_in_words(results, snapshot),
        *(["Approve the same run again to go on"] if approves and _unfinished(numbers) else []),
        *([near] if near else []),
        *said_of(notices),
        in_flight_in_words(snapshot),
    )


def _unfinished(numbers: Counter[Outcome]) -> bool:
    return bool(numbers[Outcome.NOT_REACHED] or numbers[Outcome.ERRORED] or numbers[Outcome.BUSY])


def _trouble_in_words(results: Sequence[Result], snapshot: Snapshot) -> list[str]:
    held = sum(stays_busy(result, snapshot) for result in results)
    lost = sum(result.marked_again > 0 for result in results)
    return [
        *(
            [
                f"{count(held, 'busy site')} stuck for more than "
                f"{duration(LONG * snapshot.threshold)}: the report says who holds the row"
            ]
            if held
            else []
        ),
        *(
            [
                f"{count(lost, 'mark')} of an earlier sweep gone and set again: something saves "
                "whole documents over it, or takes it out"
            ]
            if lost
            else []
        ),
    ]


def in_flight_in_words(snapshot: Snapshot) -> str:
    """What else was in flight, and what is left alone."""
    aside = [
        f"with an unreadable start: {snapshot.unreadable_total:,}",
        *([f"on hold: {snapshot.on_hold_total:,}"] if snapshot.on_hold_total else []),
        *([f"before a deadline: {snapshot.waiting_total:,}"] if snapshot.waiting_total else []),
    ]
    return f"In flight when it looked: {snapshot.in_flight:,}, {', '.join(aside)}"


BLIND_FROM = 5
"""The fewest unreadable sites that blind a sweep, if they are most of those in flight."""


def blindness(snapshot: Snapshot) -> str | None:
    """Why this sweep did not see what it is there for; None where it did.

    A platform that changes how it writes its stamps makes every site unreadable at once.
    """
    unreadable, in_flight = snapshot.unreadable_total, snapshot.in_flight
    if unreadable < BLIND_FROM or 2 * unreadable <= in_flight:
        return None
    return sentences(
        f"{unreadable:,} of {in_flight:,} sites in flight can't be read, the first of them "
        f"{snapshot.unreadable[0]}: {snapshot.unreadable[0].stamp or '(empty)'}",
        "Nothing was changed. Look at how the platform writes its stamps: the README has the forms "
        "that are read",
    )


def _found(
    snapshot: Snapshot, results: Sequence[Result], approves: Refusal | None
) -> Iterator[str]:
    """What became of the stuck sites; of an approval also, how many others are stuck."""
    others = snapshot.stuck_beside
    if results:
        yield f"{count(len(results), 'stuck site')} found: {tally(results)}"
        if others:
            yield f"{others:,} more, not approved here, {'is' if others == 1 else 'are'} stuck"
    elif approves:
        also = f"; {others:,} {'other is' if others == 1 else 'others are'}" if others else ""
        yield f"None of the {approves.listed:,} listed is stuck any more{also}"
    else:
        yield "Nothing was stuck"


def said_of(notices: NoticesSent) -> list[str]:
    """What came of the notices, where there is anything to say."""
    quiet = notices is None or (isinstance(notices, Deliveries) and notices.quiet)
    return [] if quiet else [f"Notices: {notices}"]


def _left_over(notices: NoticesSent) -> bool:
    """Whether the platform may still hold what a failed attempt made."""
    return isinstance(notices, NotLookedUp) or bool(
        notices and (notices.teardowns_owed or notices.teardowns_given_up)
    )


def nearness(found: int, reaped_last_hour: int, caps: Caps) -> str | None:
    """A word of warning from four fifths of a cap on, before the first refusal."""
    if caps.per_hour is None:  # an approval, whose cap is what the refusal listed
        return None
    if found >= NEAR * caps.per_run:
        return f"Near the cap of a run: {found:,} of {caps.per_run:,}"
    if found and found + reaped_last_hour >= NEAR * caps.per_hour:
        return f"Near the cap of an hour: {found + reaped_last_hour:,} of {caps.per_hour:,}"
    return None
