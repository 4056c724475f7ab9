"""How a sweep ends: the name of its state and the message that holds the numbers."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from provisioning.errors import CapExceeded
from provisioning.outbox.dispatcher import Deliveries
from provisioning.site_state import Outcome
from provisioning.sweep.approvals import Refusal
from provisioning.sweep.caps import Caps, Standing, half
from provisioning.sweep.grouping import largest_group
from provisioning.sweep.refusals import Past
from provisioning.sweep.snapshot import Candidate, Snapshot
from provisioning.text import count, duration

NEAR = 0.8
"""The part of a cap from which a run says that the refusal is near."""


class Ending(StrEnum):
    """The states in which a run that could look ends."""

    CLEAN = "Clean"
    REAPED = "Reaped"
    REHEARSED = "Rehearsed"
    REFUSED = "Refused"
    INCOMPLETE = "Incomplete"

    @property
    def red(self) -> bool:
        """Whether a person must look."""
        return self in (Ending.REFUSED, Ending.INCOMPLETE)


@dataclass(frozen=True)
class Result:
    """What became of one candidate, and the reason where there is more to say."""

    candidate: Candidate
    outcome: Outcome
    reason: str = ""


_IN_WORDS = {
    Outcome.REAPED: "reaped",
    Outcome.WOULD_REAP: "would be reaped",
    Outcome.FINISHED: "finished meanwhile",
    Outcome.ALREADY_FAILED: "failed by somebody else meanwhile",
    Outcome.RESTARTED: "restarted meanwhile",
    Outcome.VANISHED: "deleted meanwhile",
    Outcome.BUSY: "busy, left to the next sweep",
    Outcome.ERRORED: "errored",
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
    if numbers[Outcome.ERRORED] or _left_over(notices):
        ending = Ending.INCOMPLETE
    if dry_run:
        ending = Ending.REHEARSED
    sentences = [
        *(["Dry run, nothing was changed"] if dry_run else []),
        *([f"Approves {approves}"] if approves else []),
        *([f"Note: {note.rstrip('.')}"] if note else []),
        *_found(snapshot, results, approves),
        *([near] if near else []),
        *_said_of(notices),
        f"In flight when it looked: {snapshot.in_flight:,}, "
        f"with an unreadable start: {snapshot.unreadable_total:,}",
    ]
    return ending, ". ".join(sentences) + "."


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


def _said_of(notices: NoticesSent) -> list[str]:
    quiet = notices is None or (isinstance(notices, Deliveries) and notices.quiet)
    return [] if quiet else [f"Notices: {notices}"]


def _left_over(notices: NoticesSent) -> bool:
    """Whether the platform may still hold what a failed attempt made."""
    return isinstance(notices, NotLookedUp) or bool(
        notices and (notices.teardowns_owed or notices.teardowns_given_up)
    )


def refuse(
    snapshot: Snapshot,
    refusal: CapExceeded,
    past: Past,
    *,
    stands: bool,
    dry_run: bool,
    notices: NoticesSent,
) -> str:
    """The message of a run that refused or rehearsed that: the numbers, and what to do next.

    Args:
        past: the refusals before this one.
        stands: whether this one holds later scheduled sweeps back.
        notices: those owed are sent also when a sweep refuses.
    """
    sentences = [
        f"Dry run, nothing was changed. A sweep would refuse: {refusal}"
        if dry_run
        else f"{refusal}: nothing was changed",
        largest_group(snapshot.stuck),
        f"The oldest started {duration(snapshot.age(snapshot.stuck[0]))} ago",
        *([] if dry_run else [_streak(past)]),
        *([_refused_before(past.own)] if past.own and not dry_run else []),
        _what_is_next(refusal, past.standing, stands=stands),
        "Something systemic broke: a person must look before anything is let through",
        *_said_of(notices),
    ]
    return ". ".join(sentences) + "."


def _streak(past: Past) -> str:
    if not (past.in_a_row and past.since):
        return "The sweep before it did not refuse"
    return f"Refusal {past.in_a_row + 1:,} in a row, since {_minute(past.since)}"


def _refused_before(at: datetime) -> str:
    return (
        f"This run refused before, at {_minute(at)}, and an approval lets through what it listed "
        "then: for a newer list start another run"
    )


def _what_is_next(refusal: CapExceeded, standing: Standing | None, *, stands: bool) -> str:
    """When sweeps act again."""
    if refusal.per_hour or not (stands or standing):
        again = "the hour's sum would pass" if refusal.per_hour else "more are stuck than"
        return f"The next scheduled sweep asks again, and refuses while {again} the cap"
    caps = [*([refusal.cap] if stands else []), *([standing.cap] if standing else [])]
    few = half(min(caps))
    when = f"at {few:,} or fewer" if few else "when none is stuck"
    return f"Sweeps act again {when}, or when you approve it or run one by hand"


def _minute(instant: datetime) -> str:
    return f"{instant:%Y-%m-%d %H:%M} UTC"


def nearness(found: int, reaped_last_hour: int, caps: Caps) -> str | None:
    """A word of warning from four fifths of a cap on, before the first refusal."""
    if found >= NEAR * caps.per_run:
        return f"Near the cap of a run: {found:,} of {caps.per_run:,}"
    if caps.per_hour and found and found + reaped_last_hour >= NEAR * caps.per_hour:
        return f"Near the cap of an hour: {found + reaped_last_hour:,} of {caps.per_hour:,}"
    return None
