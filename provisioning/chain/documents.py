"""The documents that a chain writes into `sites.metadata`, as SQL expressions.

Merged in SQL: the platform's other keys stay.
"""

from datetime import timedelta
from functools import reduce
from typing import Any

from sqlalchemy import ColumnElement, Text, and_, bindparam, case, cast, func, literal_column
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from provisioning.schema import SiteId, row_of, sites
from provisioning.stamps import IN_FLIGHT, STARTED, STARTED_INSTANT, at, iso
from provisioning.text import storable

UPSTREAM_ID = at("provision,upstream_id")
RUN_ID = at("provision,run_id")

_EMPTY = literal_column("'{}'::jsonb", JSONB)
_PROVISION = sites.c.metadata["provision"]
_HEALTH_CHECK = sites.c.metadata["health_check"]

PROGRESS = (
    sites.c.domain,
    UPSTREAM_ID.label("upstream_id"),
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


def begun(run_id: str | None) -> ColumnElement[Any]:
    """The metadata at the start of an attempt, without what the one before it left."""
    # Two attempts never share a name, not even within one microsecond.
    now = func.nullif(iso(func.clock_timestamp()), STARTED)
    a_moment_later = iso(func.clock_timestamp() + timedelta(microseconds=1))
    names = _document(
        started_at=func.coalesce(now, a_moment_later),
        run_id=cast(run_id and storable(run_id), Text),
    )
    kept = _without(_object(_PROVISION), "step", "upstream_id", "run_id")
    cleared = _document(health_check=_without(_object(_HEALTH_CHECK), "completed_at"))
    return _join(
        _without(_object(sites.c.metadata), "terminal_failure"),
        _document(provision=_join(kept, func.jsonb_strip_nulls(names))),
        case((func.jsonb_typeof(_HEALTH_CHECK) == "object", cleared), else_=_EMPTY),
    )


def stamped(values: dict[str, str]) -> ColumnElement[Any]:
    """The metadata with these stamps beside the others of the attempt."""
    stamps = _document(**{key: cast(value, Text) for key, value in values.items()})
    return _join(sites.c.metadata, _document(provision=_join(_object(_PROVISION), stamps)))


def completed() -> ColumnElement[Any]:
    """The metadata with the end stamp, by the database's clock."""
    done = _document(completed_at=iso(func.clock_timestamp()))
    return _join(sites.c.metadata, _document(health_check=_join(_object(_HEALTH_CHECK), done)))


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
