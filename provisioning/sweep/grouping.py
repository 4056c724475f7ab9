"""What a refusal shows: where the stuck sites stopped, and when they started."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from provisioning.sweep.snapshot import Candidate

NO_STEP = "no step stamped"

_BUCKETS = [
    timedelta(minutes=1),
    timedelta(minutes=5),
    timedelta(minutes=15),
    timedelta(hours=1),
    timedelta(hours=6),
    timedelta(days=1),
    timedelta(days=7),
    timedelta(days=30),
]
_MOST_BUCKETS = 12


@dataclass(frozen=True)
class Group:
    """Candidates that have something in common: how many, and when their attempts started."""

    label: str
    size: int
    first: datetime
    last: datetime


def by_step(candidates: Sequence[Candidate]) -> list[Group]:
    """The groups that stopped at the same step, the largest first."""
    steps = Counter(candidate.step or NO_STEP for candidate in candidates)
    return [
        _group(step, [c for c in candidates if (c.step or NO_STEP) == step])
        for step, _ in steps.most_common(10)
    ]


def by_start(candidates: Sequence[Candidate]) -> list[Group]:
    """The groups that started in the same span of time, the oldest first.

    The span is the shortest round one that makes twelve groups or fewer, where there is one.
    """
    if not candidates:
        return []
    starts = [candidate.started_at for candidate in candidates]
    whole = max(starts) - min(starts)
    width = next((w for w in _BUCKETS if whole < w * _MOST_BUCKETS), _BUCKETS[-1])
    members: dict[datetime, list[Candidate]] = {}
    for candidate in candidates:
        members.setdefault(_floor(candidate.started_at, width), []).append(candidate)
    return [
        _group(f"{start:%Y-%m-%d %H:%M}", members[start])
        for start in sorted(members)[-_MOST_BUCKETS * 4 :]
    ]


def largest_group(candidates: Sequence[Candidate]) -> str:
    """The one sentence to read first: "29 of 31 stopped at step dns, started 14:05 to 14:31"."""
    if not candidates:
        return ""
    group = by_step(candidates)[0]
    where = "have no step stamped" if group.label == NO_STEP else f"stopped at step {group.label}"
    return (
        f"{group.size:,} of {len(candidates):,} {where}, "
        f"started {span(group.first, group.last)} UTC"
    )


def span(first: datetime, last: datetime) -> str:
    """A span of time to the minute: "at 2025-01-15 14:00", "2025-01-15 14:00 to 14:28"."""
    begins = f"{first:%Y-%m-%d %H:%M}"
    ends = f"{last:%H:%M}" if first.date() == last.date() else f"{last:%Y-%m-%d %H:%M}"
    return f"at {begins}" if begins.endswith(ends) else f"{begins} to {ends}"


def _group(label: str, members: Sequence[Candidate]) -> Group:
    starts = [candidate.started_at for candidate in members]
    return Group(label, len(members), min(starts), max(starts))


def _floor(instant: datetime, width: timedelta) -> datetime:
    epoch = datetime(2000, 1, 1, tzinfo=UTC)
    return epoch + (instant - epoch) // width * width
