"""The function that reads a stamp and the index on it, made and replaced beside the writers.

An index keeps what its function gave when each row was written. So a function that an index stands
on is never replaced: a new one and an index on it are built under other names, and then one
statement gives both pairs each other's names. Before it and after it, whoever asks for
`iso_instant` and `sites_provision_in_flight` gets a pair that belongs together.
"""

from typing import Any

from sqlalchemy import ColumnElement, Connection, text

from provisioning.migrations.iso_instant import BODY, create_iso_instant
from provisioning.stamps import IN_FLIGHT_INDEX, INDEXED, STARTED

FUNCTION = "iso_instant"
NEXT = "_next"
OLD = "_old"

KEY = "iso_instant((metadata #>> '{provision,started_at}'::text[]))"
"""The index's expression as PostgreSQL prints it; its second column is `id`."""

PREDICATE = (
    "((((metadata #>> '{provision,started_at}'::text[]) IS NOT NULL)"
    " AND ((metadata #>> '{terminal_failure}'::text[]) IS NULL)"
    " AND ((metadata #>> '{health_check,completed_at}'::text[]) IS NULL))"
    " OR ((jsonb_typeof(metadata) = 'string'::text)"
    " AND ((metadata #>> '{}'::text[]) ~ '^[{].*\"started_at\" *: *[^ n]'::text)))"
)
"""The index's condition as PostgreSQL prints it."""

_IS_CURRENT = text("""
SELECT EXISTS (
  SELECT FROM pg_proc, pg_index
   WHERE pg_proc.oid = to_regprocedure(:function)
     AND prosrc = :body
     AND indexrelid = to_regclass(:index)
     AND indisvalid
     AND pg_get_expr(indexprs, indrelid) = :key
     AND pg_get_expr(indpred, indrelid) = :predicate)
""")

_SWAP = f"""
DO $swap$ BEGIN
  IF to_regprocedure('{FUNCTION}(text)') IS NOT NULL THEN
    ALTER FUNCTION {FUNCTION}(text) RENAME TO {FUNCTION}{OLD};
  END IF;
  ALTER FUNCTION {FUNCTION}{NEXT}(text) RENAME TO {FUNCTION};
  ALTER INDEX IF EXISTS {IN_FLIGHT_INDEX} RENAME TO {IN_FLIGHT_INDEX}{OLD};
  ALTER INDEX {IN_FLIGHT_INDEX}{NEXT} RENAME TO {IN_FLIGHT_INDEX};
END $swap$
"""


def bring_up_to_date(connection: Connection) -> None:
    """Make the function and the index those of this program; nothing where they are.

    Stopped at any point, it is finished by a second run. Needs a connection in autocommit.
    """
    # The lock bound is minutes and the only one: a build waits for every older transaction, and a
    # build that is cut leaves an invalid index.
    connection.exec_driver_sql("SET statement_timeout = 0")
    connection.exec_driver_sql("SET lock_timeout = '10min'")
    drop_leftovers(connection)
    if is_current(connection):
        return
    connection.exec_driver_sql(create_iso_instant(FUNCTION + NEXT))
    # The platform's own role computes the key whenever it writes to a row in flight.
    connection.exec_driver_sql(f"GRANT EXECUTE ON FUNCTION {FUNCTION}{NEXT}(text) TO PUBLIC")
    build_index(connection, IN_FLIGHT_INDEX + NEXT, FUNCTION + NEXT)
    connection.exec_driver_sql(_SWAP)
    drop_leftovers(connection)


def is_current(connection: Connection) -> bool:
    """Whether the function and a valid index on it are there, as this program has them."""
    connection.exec_driver_sql("SET quote_all_identifiers = off")
    found = {
        "function": f"{FUNCTION}(text)",
        "body": BODY,
        "index": IN_FLIGHT_INDEX,
        "key": KEY,
        "predicate": PREDICATE,
    }
    return bool(connection.execute(_IS_CURRENT, found).scalar_one())


def build_index(connection: Connection, index: str, function: str, table: str = "sites") -> None:
    """Build the index under that name, on that function, while others write to the table."""
    connection.exec_driver_sql(
        f"CREATE INDEX CONCURRENTLY {index} ON {table}"
        f" ({function}({_sql(connection, STARTED)}), id) WHERE {_sql(connection, INDEXED)}"
    )


def drop_leftovers(connection: Connection) -> None:
    """Drop what an earlier run built and did not come to use, and what it put aside."""
    for suffix in (NEXT, OLD):
        connection.exec_driver_sql(f"DROP INDEX CONCURRENTLY IF EXISTS {IN_FLIGHT_INDEX}{suffix}")
        connection.exec_driver_sql(f"DROP FUNCTION IF EXISTS {FUNCTION}{suffix}(text)")


def _sql(connection: Connection, expression: ColumnElement[Any]) -> str:
    """An expression of ours as the text of a DDL statement, which takes no parameters."""
    options = {"include_table": False, "literal_binds": True}
    return str(expression.compile(dialect=connection.dialect, compile_kwargs=options))
