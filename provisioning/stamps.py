"""The words of the design as SQL: started, completed, failed, in flight, stuck, unreadable.

One definition feeds the query, the re-check, the write and the index. Each path is literal SQL
text: PostgreSQL matches a partial index by expression, and a bound path would lose it under a
generic plan, silently, from the sixth execution of a prepared statement on.
"""

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, DateTime, Index, Text, and_, func, literal_column, or_

from provisioning.schema import sites

FUTURE_TOLERANCE = timedelta(minutes=5)
"""How far ahead of the database's clock a start stamp may lie before it is unreadable."""


def at(path: str) -> ColumnElement[str]:
    """The value at a path of `sites.metadata` as text; NULL where it is missing or JSON null."""
    return sites.c.metadata.op("#>>", return_type=Text())(literal_column(f"'{{{path}}}'"))


STARTED = at("provision,started_at")
"""The start stamp verbatim: the name of an attempt."""

COMPLETED = at("health_check,completed_at")
FAILED = at("terminal_failure")
STEP = at("provision,step")
WEBHOOK = at("provision,webhook")

STARTED_INSTANT: ColumnElement[datetime] = func.iso_instant(STARTED, type_=DateTime(timezone=True))
"""The start stamp as an instant; NULL where it can't be read. Never raises."""

IN_FLIGHT = and_(STARTED.is_not(None), FAILED.is_(None), COMPLETED.is_(None))


def iso(instant: ColumnElement[Any]) -> ColumnElement[str]:
    """An instant as a stamp: ISO-8601, UTC, microseconds."""
    return func.to_char(
        func.timezone("UTC", instant), 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"', type_=Text()
    )


def stuck_before(cutoff: ColumnElement[datetime]) -> ColumnElement[bool]:
    """In flight, and started strictly before the cutoff."""
    return and_(IN_FLIGHT, STARTED_INSTANT < cutoff)


UNREADABLE = and_(
    IN_FLIGHT,
    or_(STARTED_INSTANT.is_(None), STARTED_INSTANT > func.now() + FUTURE_TOLERANCE),
)

IN_FLIGHT_INDEX = Index(
    "sites_provision_in_flight",
    STARTED_INSTANT,
    sites.c.id,
    postgresql_where=IN_FLIGHT,
    postgresql_concurrently=True,
)
"""Holds the rows in flight and no others, so a sweep costs the same on any number of sites."""
