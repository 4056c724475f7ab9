"""The words of the design as SQL: in flight, stuck, unreadable, on hold, deadline, encoded twice.

One definition feeds the query, the re-check, the write and the index. Each path is literal SQL
text: PostgreSQL matches a partial index by expression, and a bound path would lose it under a
generic plan, silently, from the sixth execution of a prepared statement on.
"""

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Text, and_, case, func, literal_column, or_
from sqlalchemy.dialects.postgresql import JSONB

from provisioning.schema import PRESENT, iso_instant, sites

FUTURE_TOLERANCE = timedelta(minutes=5)
"""How far ahead of the database's clock a start stamp may lie before it is unreadable."""


def at(path: str) -> ColumnElement[str]:
    """The value at a path of `sites.metadata` as text; NULL where it is missing or JSON null."""
    return sites.c.metadata.op("#>>", return_type=Text())(literal_column(f"'{{{path}}}'"))


def instant(stamp: ColumnElement[str]) -> ColumnElement[datetime]:
    """A stamp as an instant; NULL where it can't be read. Never raises."""
    return iso_instant(stamp)


def iso(instant: ColumnElement[Any]) -> ColumnElement[str]:
    """An instant as a stamp: ISO-8601, UTC, microseconds."""
    # The quoted colons are for parsers of placeholders, which take `:MI` for one.
    return func.to_char(
        func.timezone("UTC", instant), 'YYYY-MM-DD"T"HH24":"MI":"SS.US"Z"', type_=Text()
    )


STARTED = at("provision,started_at")
"""The start stamp verbatim: the name of an attempt."""

COMPLETED = at("health_check,completed_at")
FAILED = at("terminal_failure")
STEP = at("provision,step")
STEP_AT = at("provision,step_at")
WEBHOOK = at("provision,webhook")
WEBHOOK_SECRET = at("provision,webhook_secret")
HOLD = at("provision,hold")
DEADLINE = at("provision,deadline")

STARTED_INSTANT = instant(STARTED)
DEADLINE_INSTANT = instant(DEADLINE)

IN_FLIGHT = and_(STARTED.is_not(None), FAILED.is_(None), COMPLETED.is_(None), PRESENT)

ENCODED_TWICE = and_(
    func.jsonb_typeof(sites.c.metadata) == literal_column("'string'"),
    at("").op("~")(literal_column("""'^[{].*"started_at" *: *[^ n]'""")),
    PRESENT,
)
"""The document is a JSON text that holds an object with a start, so no path of it can be read.

Whether that object is in flight nobody can tell in SQL that never raises: it is listed until it is
put right.
"""

INDEXED = or_(IN_FLIGHT, ENCODED_TWICE)
"""What the index holds, and no other row, so that a sweep costs the same on any number of sites.
Each condition below implies it."""

IN_FLIGHT_INDEX = "sites_provision_in_flight"

HELD = func.coalesce(
    sites.c.metadata.op("#>", return_type=JSONB())(literal_column("'{provision,hold}'")),
    literal_column("'null'"),
).not_in([literal_column("'null'"), literal_column("'false'")])

ON_HOLD = and_(IN_FLIGHT, HELD)
"""In flight, and somebody looks at the site: any stamp at `provision.hold` but JSON false."""

BEFORE_DEADLINE = and_(IN_FLIGHT, DEADLINE_INSTANT >= func.now())
"""In flight, and not stuck yet, however old it is.

An instant counts without its nanoseconds, so at its own microsecond a deadline is not over.
"""

UNREADABLE = or_(
    and_(
        IN_FLIGHT,
        or_(
            STARTED_INSTANT.is_(None),
            STARTED_INSTANT > func.now() + FUTURE_TOLERANCE,
            and_(DEADLINE.is_not(None), DEADLINE_INSTANT.is_(None)),
        ),
    ),
    ENCODED_TWICE,
)
"""Something is in flight of which nobody can say since when, or until when."""

UNREADABLE_STAMP = case(
    (STARTED.is_(None), literal_column("'(the whole document is encoded twice)'")),
    (STARTED_INSTANT.is_(None), STARTED),
    (DEADLINE_INSTANT.is_(None) & DEADLINE.is_not(None), literal_column("'deadline '") + DEADLINE),
    else_=STARTED,
)
"""What of an unreadable site can't be read. A document that is no object is not shown: secrets."""


def stuck_before(cutoff: ColumnElement[datetime]) -> ColumnElement[bool]:
    """In flight, started strictly before the cutoff, on nobody's hold and past any deadline."""
    return and_(
        IN_FLIGHT,
        STARTED_INSTANT < cutoff,
        ~HELD,
        or_(DEADLINE.is_(None), DEADLINE_INSTANT < func.now()),
    )
