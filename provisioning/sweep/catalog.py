"""What a database says of itself: one statement, which reads the catalog and no row of a table.

A name is never looked up in a way that raises where a schema may not be used, so that what can't
be seen is told like what isn't there.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import text

from provisioning.database import Connection
from provisioning.migrations.definition import FUNCTION, KEY, PREDICATE
from provisioning.migrations.iso_instant import BODY
from provisioning.schema import (
    notices,
    sites,
    sql_name,
    sweep_ends,
    sweep_refusals,
    terminal_failures,
)
from provisioning.session import SESSION
from provisioning.stamps import IN_FLIGHT_INDEX

_TABLES = (sites, terminal_failures, notices, sweep_refusals, sweep_ends)
_READ = [column.name for column in sites.columns]


@dataclass(frozen=True)
class Right:
    """A privilege on a table, or on one column of it where one is named."""

    table: str
    privilege: str
    column: str | None = None

    def __str__(self) -> str:
        column = f" ({sql_name(self.column)})" if self.column else ""
        return f"{self.privilege}{column} ON {self.table}"


TO_READ = (
    *(Right(sql_name(sites), "SELECT", column) for column in _READ),
    *(Right(sql_name(table), "SELECT") for table in _TABLES[1:]),
)
TO_WRITE = (
    Right(sql_name(sites), "UPDATE", sites.c.metadata.name),
    Right(sql_name(terminal_failures), "INSERT"),
    Right(sql_name(terminal_failures), "UPDATE", terminal_failures.c.marked_again.name),
    *(Right(sql_name(notices), privilege) for privilege in ("INSERT", "UPDATE")),
    *(Right(sql_name(sweep_refusals), what) for what in ("INSERT", "UPDATE", "DELETE")),
    *(Right(sql_name(sweep_ends), what) for what in ("INSERT", "UPDATE")),
)
"""What a sweep needs beside reading, and a dry run doesn't."""


@dataclass(frozen=True)
class Facts:
    """What the catalog says of the database, to the role that asked.

    Attributes:
        database: its name.
        account: the role that asked.
        encoding: the encoding of its text, as PostgreSQL names it.
        standby: whether it is in recovery.
        settings: the settings of this session that the program sets, as they are in force.
        kind: the `relkind` of the platform's table; None where none is seen by that name.
        lookalikes: where `kind` is None, relations that may be the one that was meant.
        columns: the type of each column that the sweep reads and that is there.
        missing: tables of ours that are not seen, and columns that they lack.
        function: whether the function that reads stamps is this program's; None where none is seen.
        index: "ready", "invalid" or "other"; None where none is seen by its name on the table.
        guarded: the tables to which row security applies for this role.
        lacking: the rights of `TO_READ` and `TO_WRITE` that the role does not have.
        schemas: the schemas that the role may not use although a table is there.
        execute: whether the role may call the function.
        ahead: how far the database's clock is ahead of this process's; negative where it is behind,
            and zero where the time that the answer took explains the difference.
    """

    database: str
    account: str
    encoding: str
    standby: bool
    settings: dict[str, str]
    kind: str | None
    lookalikes: tuple[str, ...]
    columns: dict[str, str]
    missing: tuple[str, ...]
    function: bool | None
    index: str | None
    guarded: tuple[str, ...]
    lacking: tuple[Right, ...]
    schemas: tuple[str, ...]
    execute: bool | None
    ahead: timedelta


_FACTS = text(r"""
WITH wanted AS (
  SELECT * FROM unnest(CAST(:schemas AS text[]), CAST(:names AS text[]), CAST(:shown AS text[]))
           WITH ORDINALITY AS wanted(schema, name, shown, number)
), found AS MATERIALIZED (
  SELECT number, shown,
         CASE WHEN schema IS NULL THEN CAST(to_regclass(quote_ident(name)) AS oid)
              ELSE (SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
                     WHERE relname = name AND nspname = schema) END AS oid
    FROM wanted
), site AS (SELECT oid FROM found WHERE number = 1
), function AS MATERIALIZED (
  SELECT CASE WHEN CAST(:function_schema AS text) IS NULL
              THEN CAST(to_regprocedure(:function || '(text)') AS oid)
              ELSE (SELECT p.oid FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace
                     WHERE proname = :function AND nspname = :function_schema
                       AND oidvectortypes(proargtypes) = 'text') END AS oid
), needed AS (
  SELECT * FROM unnest(CAST(:tables AS text[]), CAST(:privileges AS text[]),
                       CAST(:on_columns AS text[]))
           WITH ORDINALITY AS needed(shown, privilege, attname, place)
)
SELECT current_database() AS database,
       current_user AS account,
       getdatabaseencoding() AS encoding,
       pg_is_in_recovery() AS standby,
       extract(epoch FROM clock_timestamp()) AS clock,  -- a number: no DateStyle changes it
       (SELECT jsonb_object_agg(name, current_setting(name, true))
          FROM unnest(CAST(:settings AS text[])) AS name) AS settings,
       (SELECT CAST(relkind AS text) FROM pg_class JOIN site USING (oid)) AS kind,
       CASE WHEN (SELECT oid FROM site) IS NULL THEN ARRAY(
         SELECT format('%I.%I', nspname, relname)
           FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
          WHERE relkind IN ('r', 'p', 'v', 'm', 'f')
            AND nspname NOT LIKE 'pg\_%' AND nspname <> 'information_schema'
            AND (lower(relname) = lower(:table) OR EXISTS (
                  SELECT FROM pg_attribute WHERE attrelid = c.oid AND attname = :metadata))
          ORDER BY lower(relname) = lower(:table) DESC, nspname, relname
          LIMIT 5) ELSE '{}' END AS lookalikes,
       (SELECT coalesce(jsonb_object_agg(attname, format_type(atttypid, atttypmod)), '{}')
          FROM pg_attribute JOIN site ON attrelid = oid
         WHERE attname = ANY (:columns) AND NOT attisdropped) AS columns,
       ARRAY(SELECT shown FROM found WHERE number > 1 AND oid IS NULL
             UNION ALL
             SELECT f.shown || '.' || attname
               FROM unnest(CAST(:own_tables AS text[]), CAST(:own_columns AS text[]))
                 AS own(shown, attname)
               JOIN found f USING (shown)
              WHERE oid IS NOT NULL AND attname NOT IN (
                SELECT a.attname FROM pg_attribute a WHERE attrelid = oid AND NOT attisdropped)
       ) AS missing,
       (SELECT prosrc = :body FROM pg_proc JOIN function USING (oid)) AS function,
       (SELECT CASE WHEN NOT (indisvalid AND indisready) THEN 'invalid'
                    WHEN right(translate(pg_get_expr(indexprs, indrelid), '"', ''), length(:key))
                         = :key
                     AND translate(pg_get_expr(indpred, indrelid), '"', '') = :predicate
                    THEN 'ready' ELSE 'other' END
          FROM pg_index JOIN site ON indrelid = site.oid JOIN pg_class c ON c.oid = indexrelid
         WHERE relname = :index) AS index,
       ARRAY(SELECT shown FROM found WHERE row_security_active(oid) ORDER BY number) AS guarded,
       ARRAY(SELECT place FROM needed JOIN found USING (shown)
               LEFT JOIN pg_attribute a ON attrelid = oid AND a.attname = needed.attname
              WHERE NOT CASE WHEN needed.attname IS NULL THEN has_table_privilege(oid, privilege)
                             ELSE has_column_privilege(oid, attnum, privilege) END
              ORDER BY place) AS lacking,
       ARRAY(SELECT DISTINCT nspname
               FROM found JOIN pg_class c USING (oid) JOIN pg_namespace n ON n.oid = relnamespace
              WHERE NOT has_schema_privilege(n.oid, 'USAGE') ORDER BY 1) AS schemas,
       (SELECT has_function_privilege(oid, 'EXECUTE') FROM function) AS execute
""")

_NEEDED = (*TO_READ, *TO_WRITE)
_ASKED = {
    "schemas": [table.schema for table in _TABLES],
    "names": [table.name for table in _TABLES],
    "shown": [sql_name(table) for table in _TABLES],
    "table": sites.name,
    "metadata": sites.c.metadata.name,
    "columns": _READ,
    "function": FUNCTION,
    "function_schema": terminal_failures.schema,
    "body": BODY,
    "index": IN_FLIGHT_INDEX,
    "key": KEY.replace('"', ""),
    "predicate": PREDICATE.replace('"', ""),
    "own_tables": [sql_name(table) for table in _TABLES[1:] for _ in table.columns],
    "own_columns": [column.name for table in _TABLES[1:] for column in table.columns],
    "tables": [right.table for right in _NEEDED],
    "privileges": [right.privilege for right in _NEEDED],
    "on_columns": [right.column for right in _NEEDED],
}


async def read_facts(connection: Connection) -> Facts:
    """Ask the database what it is. One statement."""
    asked = datetime.now(UTC)
    answer = await connection.execute(_FACTS, {**_ASKED, "settings": list(SESSION)})
    answered = datetime.now(UTC)
    found = dict(answer.mappings().one())
    clock = datetime.fromtimestamp(float(found.pop("clock")), UTC)
    lists = {name: tuple(found[name]) for name in ("lookalikes", "missing", "guarded", "schemas")}
    return Facts(
        **found
        | lists
        | {
            "lacking": tuple(_NEEDED[place - 1] for place in found["lacking"]),
            "ahead": max(clock - answered, timedelta(0)) + min(clock - asked, timedelta(0)),
        }
    )
