"""What a refusal shows: where the stuck sites stopped, and when they started.

Counted in the database over all of them, however few of them are listed.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Row,
    Text,
    cast,
    func,
    literal,
    literal_column,
    select,
    union_all,
)
from sqlalchemy.dialects.postgresql import ARRAY, INTERVAL

from provisioning.stamps import STARTED_INSTANT, STEP
from provisioning.text import one_line

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
_MOST_STEPS = 10


class Stuck(Protocol):
    """What a group is made of."""

    @property
    def step(self) -> str:
        """The last step."""

    @property
    def started_at(self) -> datetime:
        """When the attempt started."""


@dataclass(frozen=True)
class Group:
    """Candidates that have something in common: how many, and when their attempts started."""

    label: str
    size: int
    first: datetime
    last: datetime


@dataclass(frozen=True)
class Groups:
    """All the stuck, counted: how many they are, where they stopped and when they started.

    Attributes:
        total: how many there are.
        steps: the groups that stopped at the same step, the largest first; ten at most.
        starts: the groups that started in the same span of time, the oldest first. The span is the
            shortest round one that makes twelve groups or fewer, where there is one.
    """

    total: int = 0
    steps: tuple[Group, ...] = ()
    starts: tuple[Group, ...] = ()


NO_GROUPS = Groups()


def groups_query(stuck: ColumnElement[bool]) -> CompoundSelect[Any]:
    """Count all the sites for which the condition is true, in one pass over them."""
    found = (
        select(
            STARTED_INSTANT.label("started"), func.coalesce(func.left(STEP, 100), "").label("step")
        )
        .where(stuck)
        .cte("stuck")
    )
    started = found.c.started
    sizes = (
        func.count().label("size"),
        func.min(started).label("first"),
        func.max(started).label("last"),
    )
    widths = func.unnest(cast(_BUCKETS, ARRAY(INTERVAL))).column_valued("width")
    whole = select(func.max(started) - func.min(started)).scalar_subquery()
    narrow = select(func.min(widths)).where(whole < widths * _MOST_BUCKETS).scalar_subquery()
    span = func.date_bin(
        func.coalesce(narrow, cast(_BUCKETS[-1], INTERVAL)),
        started,
        literal_column("'2000-01-01T00:00Z'::timestamptz"),
    )
    label = func.to_char(func.timezone("UTC", span), 'YYYY-MM-DD HH24":"MI', type_=Text())
    by_step = (
        select(literal("step").label("kind"), found.c.step.label("label"), *sizes)
        .group_by(found.c.step)
        .order_by(sizes[0].desc(), found.c.step)
        .limit(_MOST_STEPS)
    )
    by_start = (
        select(literal("start"), label.label("label"), *sizes)
        .group_by(label)
        .order_by(label.desc())
        .limit(_MOST_BUCKETS * 4)
    )
    total = select(literal("total").label("kind"), literal("").label("label"), *sizes)
    return union_all(total.select_from(found), by_step, by_start)


def grouped(rows: Iterable[Row[Any]]) -> Groups:
    """The answer of `groups_query`."""
    found: dict[str, list[Group]] = {"total": [], "step": [], "start": []}
    for row in rows:
        group = Group(one_line(row.label) or NO_STEP, row.size, row.first, row.last)
        found[row.kind].append(group)
    return Groups(
        total=found["total"][0].size,
        steps=tuple(found["step"]),
        starts=tuple(sorted(found["start"], key=lambda group: group.label)),
    )


def by_step(listed: Sequence[Stuck]) -> list[Group]:
    """The groups of these few that stopped at the same step, the largest first."""
    sizes = Counter(site.step or NO_STEP for site in listed)
    return [
        _group(step, [site for site in listed if (site.step or NO_STEP) == step])
        for step, _ in sizes.most_common(_MOST_STEPS)
    ]


def largest_group(groups: Groups) -> str:
    """The one sentence to read first: "29 of 31 stopped at step dns, started 14:05 to 14:31"."""
    if not groups.steps:
        return ""
    group = groups.steps[0]
    where = "have no step stamped" if group.label == NO_STEP else f"stopped at step {group.label}"
    return (
        f"{group.size:,} of {groups.total:,} {where}, started {span(group.first, group.last)} UTC"
    )


def span(first: datetime, last: datetime) -> str:
    """A span of time to the minute: "at 2025-01-15 14:00", "2025-01-15 14:00 to 14:28"."""
    begins = f"{first:%Y-%m-%d %H:%M}"
    ends = f"{last:%H:%M}" if first.date() == last.date() else f"{last:%Y-%m-%d %H:%M}"
    return f"at {begins}" if begins.endswith(ends) else f"{begins} to {ends}"


def _group(label: str, members: Sequence[Stuck]) -> Group:
    starts = [site.started_at for site in members]
    return Group(label, len(members), min(starts), max(starts))
