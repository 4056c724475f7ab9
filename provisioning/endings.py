"""How a sweep ends: the name of its state and the message that holds the numbers."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from provisioning.caps import CapExceeded, Caps
from provisioning.evidence import largest_group
from provisioning.outcomes import Outcome
from provisioning.sightings import Candidate, Sighting
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


def conclude(
    sighting: Sighting, results: Sequence[Result], *, dry_run: bool, near: str | None
) -> tuple[Ending, str]:
    """The state of a run that was not refused, and its message."""
    numbers = Counter(result.outcome for result in results)
    ending = Ending.CLEAN
    if numbers[Outcome.REAPED]:
        ending = Ending.REAPED
    if numbers[Outcome.ERRORED]:
        ending = Ending.INCOMPLETE
    if dry_run:
        ending = Ending.REHEARSED
    found = (
        f"{count(len(results), 'stuck site')} found: {tally(results)}"
        if results
        else "Nothing was stuck"
    )
    sentences = [
        *(["Dry run, nothing was changed"] if dry_run else []),
        found,
        *([near] if near else []),
        f"{sighting.in_flight:,} in flight, {sighting.unreadable_total:,} with an unreadable start",
    ]
    return ending, ". ".join(sentences) + "."


def refuse(sighting: Sighting, refusal: CapExceeded, *, dry_run: bool) -> str:
    """The message of a refused run: the numbers, the evidence, and what to do next."""
    oldest = sighting.age(sighting.stuck[0])
    sentences = [
        *(["Dry run"] if dry_run else []),
        f"{str(refusal)[0].upper()}{str(refusal)[1:]}: nothing was changed",
        f"The oldest started {duration(oldest)} ago",
        largest_group(sighting.stuck),
        "More than a cap means that something systemic broke: read this run's report, look at the "
        "platform's queue and workers, and only then let these sites through",
    ]
    return ". ".join(sentences) + "."


def nearness(found: int, reaped_last_hour: int, caps: Caps) -> str | None:
    """A word of warning from four fifths of a cap on, before the first refusal."""
    if found >= NEAR * caps.per_run:
        return f"Near the cap of a run: {found:,} of {caps.per_run:,}"
    if caps.per_hour and found and found + reaped_last_hour >= NEAR * caps.per_hour:
        return f"Near the cap of an hour: {found + reaped_last_hour:,} of {caps.per_hour:,}"
    return None
