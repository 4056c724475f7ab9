"""Whether a platform's database can be adopted: all that is in the way, before anything is made."""

from collections.abc import Iterator

from sqlalchemy import Connection

from provisioning.mapping import MAPPING
from provisioning.migrations.place import Place, find_place
from provisioning.migrations.taken import every, one, taken
from provisioning.schema import sites, sql_name

OLDEST_SERVER = 150_000
_IDS = ("smallint", "integer", "bigint", "uuid", "text", "character varying")
_KINDS = {"v": "a view", "m": "a materialized view", "f": "a foreign table"}


def obstacles(connection: Connection) -> list[str]:
    """All that is wrong and what to do about it, one sentence each; none where nothing is."""
    place = find_place(connection)
    found = [*_server(connection)]
    if place is None:
        return [*found, _missing(connection)]
    if place.kind not in ("r", "p"):
        kind = _KINDS.get(place.kind, "no table")
        found.append(
            f"{place.table} is {kind}, and only a table can be swept. Set PROVISION_SITES_TABLE to "
            "the table behind it."
        )
        return found
    return [
        *found,
        *_columns(connection, place),
        *_rights(connection, place),
        *taken(connection, place),
    ]


def _server(connection: Connection) -> Iterator[str]:
    row = one(
        connection,
        """
        SELECT current_setting('server_version_num')::int AS number,
               current_setting('server_version') AS version, current_database() AS name,
               pg_is_in_recovery() AS standby, getdatabaseencoding() AS encoding
        """,
    )
    if row.number < OLDEST_SERVER:
        yield f"The server is PostgreSQL {row.version}; 15 or newer is needed."
    if row.standby:
        yield (
            f"Database {row.name} is on a standby, which takes no writes. Set "
            "PROVISION_DATABASE_URL to the primary."
        )
    if row.encoding == "SQL_ASCII":
        yield (
            f"Database {row.name} has the encoding SQL_ASCII, in which nobody knows what a letter "
            "is. Move it to a database of encoding UTF8."
        )


def _missing(connection: Connection) -> str:
    rows = every(
        connection,
        r"""
        SELECT DISTINCT nspname, relname, lower(relname) = lower(:name) AS same
          FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
          LEFT JOIN pg_attribute a ON attrelid = c.oid AND attname = :metadata
                                  AND atttypid = 'jsonb'::regtype AND NOT attisdropped
         WHERE relkind IN ('r', 'p') AND NOT relispartition
           AND nspname NOT LIKE 'pg\_%' AND nspname <> 'information_schema'
           AND (lower(relname) = lower(:name) OR relname ILIKE '%site%' OR a.attname IS NOT NULL)
         ORDER BY same DESC, nspname, relname LIMIT 5
        """,
        name=MAPPING.table,
        metadata=MAPPING.sites_metadata,
    )
    like = [f"{sql_name(row.nspname)}.{sql_name(row.relname)}" for row in rows]
    database = one(connection, "SELECT current_database() AS name").name
    return f"Database {database} has no table {sql_name(sites)}, and none is made. " + (
        f"There is {', '.join(like)}: if that is it, set PROVISION_SITES_TABLE='{like[0]}'."
        if like
        else "Check that PROVISION_DATABASE_URL names the platform's database, or set "
        "PROVISION_SITES_TABLE to its table."
    )


def _columns(connection: Connection, place: Place) -> Iterator[str]:
    rows = every(
        connection,
        """
        SELECT attname, typcategory,
               format_type(coalesce(nullif(typbasetype, 0), t.oid), NULL) AS type
          FROM pg_attribute JOIN pg_type t ON t.oid = atttypid
         WHERE attrelid = :table AND attnum > 0 AND NOT attisdropped
        """,
        table=place.oid,
    )
    columns = {row.attname: row for row in rows}
    for column in sites.columns:
        if column.name not in columns:
            same = [name for name in columns if name.lower() == column.name.lower()]
            yield (
                f"{place.table} has no column {sql_name(column.name)}. Set PROVISION_SITES_"
                f"{column.key.upper()} to "
                + (f"'{sql_name(same[0])}'." if same else "the column that it has for it.")
            )
    kind, id_, domain = (columns.get(sites.c[key].name) for key in ("metadata", "id", "domain"))
    if kind and kind.type != "jsonb":
        metadata = sql_name(MAPPING.sites_metadata)
        yield (
            f"{place.table}.{metadata} is of type {kind.type}, and only jsonb can be swept. "
            "Convert it, at a quiet hour, since that rewrites the table: "
            f"ALTER TABLE {place.table} ALTER COLUMN {metadata} TYPE jsonb USING {metadata}::jsonb;"
        )
    if domain and domain.typcategory != "S":
        yield (
            f"{place.table}.{sql_name(MAPPING.sites_domain)} is of type {domain.type}; a domain is "
            "text. Set PROVISION_SITES_DOMAIN to another column."
        )
    if id_ and id_.type not in _IDS:
        yield (
            f"{place.table}.{sql_name(MAPPING.sites_id)} is of type {id_.type}; an id is an "
            "integer, a uuid or text. Set PROVISION_SITES_ID to another column."
        )
    elif id_ and not _is_unique(connection, place):
        yield (
            f"Nothing makes {place.table}.{sql_name(MAPPING.sites_id)} unique, so that an id could "
            "mean two sites. Give it a primary key or a unique index, or set PROVISION_SITES_ID to "
            "a column that has one."
        )


def _is_unique(connection: Connection, place: Place) -> bool:
    """By an index on it alone. On a partitioned table with the columns by which it is split."""
    return bool(
        every(
            connection,
            """
            SELECT 1
              FROM pg_index i
              JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attname = :id
              LEFT JOIN pg_partitioned_table p ON p.partrelid = i.indrelid
             WHERE i.indrelid = :table AND indisunique AND indisvalid AND indpred IS NULL
               AND a.attnum = ANY (i.indkey)
               AND (SELECT bool_and(key = a.attnum OR key = ANY (coalesce(p.partattrs, '')))
                      FROM unnest(i.indkey[0:i.indnkeyatts - 1]) AS key)
            """,
            table=place.oid,
            id=MAPPING.sites_id,
        )
    )


def _rights(connection: Connection, place: Place) -> Iterator[str]:
    account = one(connection, "SELECT quote_ident(current_user) AS name").name
    parts = every(
        connection,
        """
        SELECT c.oid::regclass::text AS name, CAST(relkind AS text) AS kind, nspname,
               pg_has_role(relowner, 'USAGE') AS owned, quote_ident(rolname) AS owner
          FROM pg_class c
          JOIN pg_namespace n ON n.oid = relnamespace
          JOIN pg_roles r ON r.oid = relowner
         WHERE c.oid = :table
            OR c.oid IN (SELECT relid FROM pg_partition_tree(:table))
         ORDER BY c.oid <> :table, 1
        """,
        table=place.oid,
    )
    others = [part for part in parts if not part.owned]
    if others:
        names = ", ".join(part.name for part in others[:5]) + (", …" if others[5:] else "")
        yield (
            f"{account} does not own {names}, and only the owner may build an index on it. Migrate "
            f"as {others[0].owner}; the workers need no such right."
        )
    foreign = [part.name for part in parts if part.kind == "f"]
    if foreign:
        yield (
            f"{', '.join(foreign)} is a foreign table, which can't hold an index, so the index on "
            f"{place.table} would never be valid. Detach it."
        )
    homes = every(
        connection,
        """
        SELECT wanted AS name, n.oid IS NOT NULL AS there,
               has_schema_privilege(n.oid, 'USAGE') AND has_schema_privilege(n.oid, 'CREATE') AS may
          FROM unnest(CAST(:names AS text[])) AS wanted LEFT JOIN pg_namespace n ON nspname = wanted
        """,
        names=sorted({place.home, *(part.nspname for part in parts)}),
    )
    for home in homes:
        name = sql_name(home.name)
        if not home.there:
            yield (
                f"There is no schema {name}, which PROVISION_SCHEMA names: "
                f"CREATE SCHEMA {name} AUTHORIZATION {account};"
            )
        elif not home.may:
            yield (
                f"{account} may create nothing in the schema {name}: "
                f"GRANT USAGE, CREATE ON SCHEMA {name} TO {account};"
            )
