"""Names of ours that are somebody else's, and names that hide ours."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, Row, text

from provisioning.mapping import MAPPING
from provisioning.migrations.definition import FUNCTION, is_ours, like_ours
from provisioning.migrations.place import Place
from provisioning.schema import sites, sql_name, tables
from provisioning.stamps import IN_FLIGHT_INDEX

VERSION_TABLE = "provision_reaper_version"
OURS = [table for table in tables.sorted_tables if table is not sites]
"""Our own tables, each after those that it refers to."""


def taken(connection: Connection, place: Place) -> Iterator[str]:
    """Names of ours that are somebody else's, and names that hide ours."""
    way_out = "Set PROVISION_SCHEMA to a schema that our objects have for themselves."
    row = one(
        connection,
        "SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace "
        "WHERE relname = :version AND nspname = :home) AS before",
        version=VERSION_TABLE,
        home=place.home,
    )
    for table in OURS:
        found = every(
            connection,
            """
            SELECT CAST(relkind AS text) AS kind,
                   ARRAY(SELECT attname::text FROM pg_attribute
                          WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped) AS columns
              FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
             WHERE relname = :name AND nspname = :home
            """,
            name=table.name,
            home=place.home,
        )
        needed = {column.name for column in table.primary_key}
        if any(
            not row.before or there.kind != "r" or not needed <= set(there.columns)
            for there in found
        ):
            yield (
                f"The name {place.function(table.name)} is taken by something that is not ours. "
                f"{way_out}"
            )
    if is_ours(connection, place, FUNCTION) is False and not row.before:
        yield f"The function {place.function(FUNCTION)}(text) is there and is not ours. {way_out}"
    indexes = every(
        connection,
        """
        SELECT c.oid, indrelid IS NOT DISTINCT FROM :table AS on_the_table
          FROM pg_class c
          JOIN pg_namespace n ON n.oid = relnamespace
          LEFT JOIN pg_index ON indexrelid = c.oid
         WHERE relname = :name AND nspname = :schema
        """,
        table=place.oid,
        name=IN_FLIGHT_INDEX,
        schema=place.schema,
    )
    ours = {index.oid for index in like_ours(connection, place.oid, place.home, FUNCTION)}
    if any(not index.on_the_table or not (row.before or index.oid in ours) for index in indexes):
        yield (
            f"The name {place.index(IN_FLIGHT_INDEX)} is taken by something that is not our index. "
            f"Give that another name: ALTER INDEX {place.index(IN_FLIGHT_INDEX)} RENAME TO ...;"
        )
    if MAPPING.schema_of_ours is None:
        yield from _hidden(connection, place)


def _hidden(connection: Connection, place: Place) -> Iterator[str]:
    """Where the search path decides, it must come to our tables and to nobody else's."""
    for table in OURS:
        row = one(
            connection,
            "SELECT (SELECT nspname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace "
            "WHERE c.oid = to_regclass(quote_ident(:name))) AS schema",
            name=table.name,
        )
        if row.schema not in (None, place.home):
            yield (
                f"The search path comes to {sql_name(row.schema)}.{table.name} before ours. Set "
                f"PROVISION_SITES_TABLE='{place.table}', so that no name is searched for."
            )


def every(connection: Connection, statement: str, **values: Any) -> list[Row[Any]]:
    """The rows of a statement."""
    return list(connection.execute(text(statement), values))


def one(connection: Connection, statement: str, **values: Any) -> Row[Any]:
    """The first row of a statement."""
    return every(connection, statement, **values)[0]
