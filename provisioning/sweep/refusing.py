"""The message of a refusal: the numbers, and what to do next."""

from datetime import datetime

from provisioning.errors import CapExceeded
from provisioning.sweep.caps import Standing, half
from provisioning.sweep.grouping import largest_group
from provisioning.sweep.refusals import Past
from provisioning.sweep.result import NoticesSent, said_of
from provisioning.sweep.snapshot import Snapshot
from provisioning.text import duration, sentences


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
    return sentences(
        f"Dry run, nothing was changed. A sweep would refuse: {refusal}"
        if dry_run
        else f"{refusal}: nothing was changed",
        largest_group(snapshot.groups),
        f"The oldest started {duration(snapshot.age(snapshot.stuck[0]))} ago",
        *([] if dry_run else [_streak(past)]),
        *([_refused_before(past.own)] if past.own and not dry_run else []),
        _what_is_next(refusal, past.standing, stands=stands),
        "Something systemic broke: a person must look before anything is let through",
        *said_of(notices),
    )


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
