"""What the index of this program is, as we ask for it and as PostgreSQL prints it."""

from typing import Any

from sqlalchemy import Connection, Row, text

from provisioning.mapping import MAPPING
from provisioning.migrations.iso_instant import BODY
from provisioning.migrations.place import Place
from provisioning.migrations.statements import as_text
from provisioning.schema import sql_name
from provisioning.stamps import INDEXED, STARTED

FUNCTION = "iso_instant"

_METADATA = MAPPING.sites_metadata
_PRESENT = f" AND ({MAPPING.sites_deleted_at} IS NULL)" if MAPPING.sites_deleted_at else ""

KEY = f"{FUNCTION}(({_METADATA} #>> '{{provision,started_at}}'::text[]))"
"""The index's expression as PostgreSQL prints it, but for the quotes round names and the schema of
the function; its second column is the id."""

PREDICATE = (
    f"(((({_METADATA} #>> '{{provision,started_at}}'::text[]) IS NOT NULL)"
    f" AND (({_METADATA} #>> '{{terminal_failure}}'::text[]) IS NULL)"
    f" AND (({_METADATA} #>> '{{health_check,completed_at}}'::text[]) IS NULL){_PRESENT})"
    f" OR ((jsonb_typeof({_METADATA}) = 'string'::text)"
    f" AND (({_METADATA} #>> '{{}}'::text[]) ~ '^[{{].*\"started_at\" *: *[^ n]'::text){_PRESENT}))"
)
"""The index's condition as PostgreSQL prints it, but for the quotes round names."""

_LIKE_OURS = text("""
SELECT CAST(i.indexrelid AS bigint) AS oid, indisvalid AS valid,
       relname, format('%I.%I', nspname, relname) AS name,
       EXISTS (SELECT FROM pg_inherits WHERE inhrelid = i.indexrelid) AS attached
  FROM pg_index i JOIN pg_class c ON c.oid = indexrelid JOIN pg_namespace n ON n.oid = relnamespace
 WHERE indrelid = :table
   AND indnatts = 2
   AND translate(pg_get_expr(indexprs, indrelid), '"', '') IN (:key, :schema || '.' || :key)
   AND translate(pg_get_expr(indpred, indrelid), '"', '') = :predicate
   AND pg_get_indexdef(indexrelid, 2, false) = quote_ident(:id)
 ORDER BY indisvalid DESC, 1
""")

_BODY = text("""
SELECT prosrc = :body FROM pg_proc JOIN pg_namespace n ON n.oid = pronamespace
 WHERE proname = :name AND nspname = :home AND oidvectortypes(proargtypes) = 'text'
""")


def like_ours(connection: Connection, table: int, home: str, function: str) -> list[Row[Any]]:
    """The indexes on a table that are defined as ours is, on that function; valid ones first.

    Rows of `oid`, `relname`, `name` as SQL writes it with its schema, `valid`, and whether it is
    `attached` to the index of a partitioned table.
    """
    wanted = {
        "table": table,
        "key": KEY.replace(FUNCTION, function, 1).replace('"', ""),
        "schema": home.replace('"', ""),
        "predicate": PREDICATE.replace('"', ""),
        "id": MAPPING.sites_id,
    }
    return list(connection.execute(_LIKE_OURS, wanted))


def is_ours(connection: Connection, place: Place, function: str) -> bool | None:
    """Whether a function is the one of this program; None if no function has that name."""
    wanted = {"body": BODY, "name": function, "home": place.home}
    return connection.execute(_BODY, wanted).scalar_one_or_none()


def columns_and_condition(connection: Connection, place: Place, function: str) -> str:
    """The end of the statement that builds the index."""
    return (
        f"({place.function(function)}({as_text(connection, STARTED)}),"
        f" {sql_name(MAPPING.sites_id)}) WHERE {as_text(connection, INDEXED)}"
    )
