"""What a sweep asks the platform's table, as SQL. Each condition is one that the index implies."""

from typing import Any

from sqlalchemy import (
    ColumnElement,
    Select,
    and_,
    bindparam,
    func,
    not_,
    select,
)
from sqlalchemy.dialects.postgresql import INTERVAL

from provisioning.schema import DOMAIN, sites
from provisioning.stamps import (
    BEFORE_DEADLINE,
    DEADLINE,
    INDEXED,
    ON_HOLD,
    STARTED,
    STARTED_INSTANT,
    STEP,
    STEP_AT,
    instant,
    stuck_before,
)
from provisioning.sweep.last_hour import WATCHDOGS_LAST_HOUR

LISTED_ASIDE = 100
"""The most sites of a kind that a sweep lists beside the stuck; their totals are exact."""

CUTOFF = func.now() - bindparam("threshold", type_=INTERVAL)


def stuck_query() -> Select[Any]:
    """The signal: the oldest stuck sites. Binds `threshold` (an interval) and `limit`."""
    return (
        select(
            sites.c.id,
            func.left(DOMAIN, 253).label("domain"),
            STARTED.label("attempt"),
            STARTED_INSTANT.label("started_at"),
            func.left(STEP, 100).label("step"),
            instant(STEP_AT).label("step_at"),
        )
        .where(stuck_before(CUTOFF))
        .order_by(STARTED_INSTANT, sites.c.id)
        .limit(bindparam("limit"))
    )


def listed_aside(condition: ColumnElement[bool], stamp: ColumnElement[str]) -> Select[Any]:
    """The first sites for which a condition is true, with the stamp that makes it so."""
    return (
        select(
            sites.c.id,
            func.left(DOMAIN, 253).label("domain"),
            func.left(stamp, 200).label("stamp"),
        )
        .where(condition)
        .order_by(sites.c.id)
        .limit(LISTED_ASIDE)
    )


# The presence of a deadline first: to read one takes longer, and few sites have any.
WAITING = and_(DEADLINE.is_not(None), BEFORE_DEADLINE, STARTED_INSTANT < CUTOFF, not_(ON_HOLD))

NUMBERS = select(
    func.now().label("now"),
    CUTOFF.label("cutoff"),
    select(func.count()).where(*WATCHDOGS_LAST_HOUR).scalar_subquery().label("reaped_last_hour"),
    func.count().label("in_flight"),
    func.count().filter(ON_HOLD).label("on_hold"),
    func.count().filter(WAITING).label("waiting"),
).where(INDEXED)
