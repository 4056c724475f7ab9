"""The numbers for dashboards: the view `provision_reaper_status`, and the function behind it.

A view that named the platform's table would stand in the way of whoever drops it or changes the
type of a column, and of the function `iso_instant` when that is replaced. The text of a function is
looked up when it is called, and hinders nobody. It runs with the rights of its owner, so that a
dashboard needs none on the platform's table, whose documents hold secrets; and so each name in it
stands with its schema.
"""

import re
from typing import Any

from sqlalchemy import ColumnElement, Connection, literal_column, text

from provisioning.migrations.definition import FUNCTION as READER
from provisioning.migrations.place import Place, the_place
from provisioning.migrations.statements import as_text, run
from provisioning.schema import notices, sweep_ends, sweep_refusals, terminal_failures
from provisioning.stamps import (
    BEFORE_DEADLINE,
    INDEXED,
    ON_HOLD,
    STARTED_INSTANT,
    UNREADABLE,
    stuck_before,
)

VIEW = "provision_reaper_status"
FUNCTION = "provision_reaper_numbers"

COLUMNS = {
    "looked_at": "timestamptz",
    "in_flight": "bigint",
    "stuck": "bigint",
    "unreadable": "bigint",
    "on_hold": "bigint",
    "before_deadline": "bigint",
    "oldest_started_at": "timestamptz",
    "oldest_stuck_at": "timestamptz",
    "webhooks_owed": "bigint",
    "teardowns_owed": "bigint",
    "webhooks_given_up": "bigint",
    "teardowns_given_up": "bigint",
    "reaped_last_hour": "bigint",
    "last_reaped_at": "timestamptz",
    "last_refused_at": "timestamptz",
    "refusals_open": "bigint",
    "refusal_stands": "boolean",
    "last_sweep_at": "timestamptz",
    "last_sweep_state": "text",
}

_STUCK = stuck_before(literal_column("now() - interval '30 minutes'"))

_CALL = re.compile(rf"(?<![.\w]){READER}\(")

_THERE = text("""
SELECT prosrc FROM pg_proc JOIN pg_namespace n ON n.oid = pronamespace
 WHERE proname = :name AND nspname = :home AND pronargs = 0
   AND EXISTS (SELECT FROM pg_class WHERE relname = :view AND relnamespace = n.oid)
""")


def make_status(connection: Connection) -> bool:
    """Make the view, or bring it up to date. Whether there was anything to do."""
    place = the_place(connection)
    body = _body(connection, place)
    wanted = {"name": FUNCTION, "home": place.home, "view": VIEW}
    if connection.execute(_THERE, wanted).scalar_one_or_none() == body:
        return False
    function, view = place.function(FUNCTION), place.function(VIEW)
    columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    drop_status(connection)
    run(
        connection,
        f"CREATE FUNCTION {function}() RETURNS TABLE ({columns}) LANGUAGE sql STABLE"
        " SECURITY DEFINER SET search_path = pg_catalog, pg_temp"
        f" SET row_security = off AS $status${body}$status$",
    )
    run(connection, f"REVOKE EXECUTE ON FUNCTION {function}() FROM PUBLIC")
    run(connection, f"CREATE VIEW {view} AS SELECT * FROM {function}()")  # noqa: S608
    return True


def drop_status(connection: Connection) -> None:
    """Take the view and its function out again."""
    place = the_place(connection)
    run(connection, f"DROP VIEW IF EXISTS {place.function(VIEW)}")
    run(connection, f"DROP FUNCTION IF EXISTS {place.function(FUNCTION)}()")


def _body(connection: Connection, place: Place) -> str:
    """The query. Each part of it reads a partial index and little else."""

    def sql(expression: ColumnElement[Any]) -> str:
        return _CALL.sub(lambda _: f"{place.function(READER)}(", as_text(connection, expression))

    started = sql(STARTED_INSTANT)
    owed, failed, refused, ended = (
        place.function(table.name)
        for table in (notices, terminal_failures, sweep_refusals, sweep_ends)
    )
    return f"""
SELECT now(), sites.*, notices.*, failures.*, refusals.*, ends.*
  FROM (SELECT count(*),
               count(*) FILTER (WHERE {sql(_STUCK)}),
               count(*) FILTER (WHERE {sql(UNREADABLE)}),
               count(*) FILTER (WHERE {sql(ON_HOLD)}),
               count(*) FILTER (WHERE {sql(BEFORE_DEADLINE)}),
               min({started}) FILTER (WHERE {started} <= now()),
               min({started}) FILTER (WHERE {sql(_STUCK)})
          FROM {place.table} WHERE {sql(INDEXED)}) AS sites,
       (SELECT count(*) FILTER (WHERE kind = 'webhook' AND given_up_at IS NULL),
               count(*) FILTER (WHERE kind = 'teardown' AND given_up_at IS NULL),
               count(*) FILTER (WHERE kind = 'webhook' AND given_up_at IS NOT NULL),
               count(*) FILTER (WHERE kind = 'teardown' AND given_up_at IS NOT NULL)
          FROM (SELECT kind, given_up_at FROM {owed}
                 WHERE delivered_at IS NULL AND given_up_at IS NULL
                UNION ALL
                SELECT kind, given_up_at FROM {owed}
                 WHERE given_up_at IS NOT NULL AND acknowledged_at IS NULL) AS n) AS notices,
       (SELECT (SELECT count(*) FROM {failed}
                 WHERE source = 'watchdog' AND failed_at > now() - interval '1 hour'),
               (SELECT max(failed_at) FROM {failed} WHERE source = 'watchdog')) AS failures,
       (SELECT (SELECT max(refused_at) FROM {refused}),
               count(*), coalesce(bool_or(stands), false)
          FROM {refused} WHERE over_at IS NULL) AS refusals
  LEFT JOIN (SELECT ended_at, state FROM {ended} ORDER BY ended_at DESC LIMIT 1) AS ends ON true
"""  # noqa: S608  (names as SQL writes them, and conditions of this program)
