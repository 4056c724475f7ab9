"""The documents that a chain writes into `sites.metadata`, as SQL expressions.

Merged in SQL: the platform's other keys stay.
"""

from datetime import timedelta
from functools import reduce
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Text,
    and_,
    bindparam,
    case,
    cast,
    exists,
    false,
    func,
    literal_column,
    not_,
    null,
    select,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from provisioning import claims
from provisioning.chain.upstream import Claim
from provisioning.schema import DOMAIN, SiteId, notices, row_of, sites, terminal_failures
from provisioning.stamps import (
    DEADLINE,
    DEADLINE_INSTANT,
    IN_FLIGHT,
    STARTED,
    STARTED_INSTANT,
    at,
    iso,
)
from provisioning.text import storable

GRACE = timedelta(minutes=2)
"""From the end of an attempt's time to its deadline: the chain's own last words come first."""

RUN_ID = at("provision,run_id")

_EMPTY = literal_column("'{}'::jsonb", JSONB)
_PROVISION = sites.c.metadata["provision"]
_HEALTH_CHECK = sites.c.metadata["health_check"]

_OWN_DEADLINE = func.coalesce(at("provision,own_deadline") == DEADLINE, false())
"""Whether the attempt that stands there set the deadline itself: then it ends with that attempt."""

PROGRESS = (
    DOMAIN.label("domain"),
    cast(sites.c.id, Text).label("site_id"),
    claims.OF_THIS_ROW.label("of_this_row"),
    claims.MADE_BY.label("made_by"),
    claims.MADE_FOR.label("made_for"),
    claims.UPSTREAM_ID.label("upstream_id"),
    (func.clock_timestamp() - STARTED_INSTANT).label("age"),
)

STAMPABLE = and_(
    *(
        func.coalesce(func.jsonb_typeof(value), "null").in_(["object", "null"])
        for value in (sites.c.metadata, _PROVISION, _HEALTH_CHECK)
    )
)


def still(site_id: SiteId, attempt: str) -> ColumnElement[bool]:
    """Every condition under which a chain may go on, for the UPDATE's own WHERE."""
    return and_(row_of(site_id), STARTED == bindparam("attempt", attempt, type_=Text()), IN_FLIGHT)


def begun(run_id: str | None, limit: timedelta | None) -> ColumnElement[Any]:
    """The metadata at the start of an attempt, without what the one before it left.

    A deadline that the platform has set further ahead stays.
    """
    # Two attempts never share a name, not even within one microsecond.
    now = func.nullif(iso(func.clock_timestamp()), STARTED)
    a_moment_later = iso(func.clock_timestamp() + timedelta(microseconds=1))
    names = _document(
        started_at=func.coalesce(now, a_moment_later),
        run_id=cast(run_id and storable(run_id), Text),
        **_deadline(limit),
    )
    past = _without(_object(_PROVISION), "step", "step_at", "run_id", "own_deadline")
    past = case((_OWN_DEADLINE, _without(past, "deadline")), else_=past)
    kept = case(
        (and_(claims.OF_THIS_ROW, not_(_TORN_DOWN)), past),
        else_=_without(past, "upstream_id", "upstream_by"),
    )
    cleared = _document(health_check=_without(_object(_HEALTH_CHECK), "completed_at"))
    return _join(
        _without(_object(sites.c.metadata), "terminal_failure"),
        _document(provision=_join(kept, func.jsonb_strip_nulls(names))),
        case((func.jsonb_typeof(_HEALTH_CHECK) == "object", cleared), else_=_EMPTY),
    )


def stamped(**values: ColumnElement[Any]) -> ColumnElement[Any]:
    """The metadata with these stamps beside the others of the attempt."""
    stamps = _document(**values)
    return _join(sites.c.metadata, _document(provision=_join(_object(_PROVISION), stamps)))


def text(value: str) -> ColumnElement[Any]:
    """A text as a stamp."""
    return cast(value, Text)


def clock() -> ColumnElement[Any]:
    """This moment as a stamp, by the database's clock."""
    return iso(func.clock_timestamp())


def nothing() -> ColumnElement[Any]:
    """JSON null, which is no stamp."""
    return cast(null(), Text)


def claimed(claim: Claim) -> ColumnElement[Any]:
    """The claim as a stamp. Its keys are those that `provisioning.claims` reads."""
    return _document(
        site=cast(sites.c.id, Text),
        attempt=text(claim.attempt),
        domain=text(claim.domain),
        marker=text(claim.marker),
    )


def completed() -> ColumnElement[Any]:
    """The metadata with the end stamp, by the database's clock."""
    done = _document(completed_at=clock())
    return _join(sites.c.metadata, _document(health_check=_join(_object(_HEALTH_CHECK), done)))


def _deadline(limit: timedelta | None) -> dict[str, ColumnElement[Any]]:
    """The deadline of an attempt with a limit, and that one which it set itself."""
    if limit is None:
        return {}
    own = func.statement_timestamp() + (limit + GRACE)  # the same instant, however often it is read
    platforms = case((not_(_OWN_DEADLINE), DEADLINE_INSTANT))
    return {"deadline": iso(func.greatest(platforms, own)), "own_deadline": iso(own)}


_TORN_DOWN = exists(
    select(notices.c.id)
    .join(terminal_failures, terminal_failures.c.id == notices.c.failure_id)
    .where(
        terminal_failures.c.site_id == cast(sites.c.id, Text),
        terminal_failures.c.attempt == claims.MADE_BY,
        notices.c.kind == "teardown",
    )
)
"""Whether the platform was, or is yet to be, asked to remove what the upstream has for this row."""


def _document(**values: ColumnElement[Any]) -> ColumnElement[Any]:
    pairs = [part for name, value in values.items() for part in (name, value)]
    return func.jsonb_build_object(*pairs, type_=JSONB())


def _object(value: ColumnElement[Any]) -> ColumnElement[Any]:
    """The value where it is an object; an empty one where it is missing, null or anything else."""
    return case((func.jsonb_typeof(value) == "object", value), else_=_EMPTY)


def _join(*documents: ColumnElement[Any]) -> ColumnElement[Any]:
    return reduce(lambda left, right: left.op("||", return_type=JSONB())(right), documents)


def _without(document: ColumnElement[Any], *keys: str) -> ColumnElement[Any]:
    return document.op("-", return_type=JSONB())(cast(list(keys), ARRAY(Text)))
