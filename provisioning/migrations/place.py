"""Where the platform's table is, and where our own objects belong."""

from dataclasses import dataclass

from sqlalchemy import Connection, text

from provisioning.mapping import MAPPING
from provisioning.schema import sites, sql_name


@dataclass(frozen=True)
class Place:
    """The platform's table, as the database has it.

    Attributes:
        oid: the relation's.
        kind: its `relkind`: "r" for a table, "p" for a partitioned one.
        schema: its schema, which is its indexes' too.
        home: the schema of our own tables and of the function.
    """

    oid: int
    kind: str
    schema: str
    home: str

    @property
    def table(self) -> str:
        """Its name as SQL writes it, with its schema."""
        return f"{sql_name(self.schema)}.{sql_name(sites.name)}"

    def index(self, name: str) -> str:
        """The name of an index on it as SQL writes it, with its schema."""
        return f"{sql_name(self.schema)}.{sql_name(name)}"

    def function(self, name: str) -> str:
        """The name of a function of ours as SQL writes it, with its schema."""
        return f"{sql_name(self.home)}.{sql_name(name)}"


_FOUND = text("""
SELECT c.oid, CAST(relkind AS text) AS kind, nspname
  FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
 WHERE CASE WHEN CAST(:schema AS text) IS NULL THEN c.oid = to_regclass(quote_ident(:name))
            ELSE relname = :name AND nspname = :schema END
""")


def find_place(connection: Connection) -> Place | None:
    """The platform's table; None where there is nothing by that name. Looked up once a session."""
    if "place" not in connection.info:
        row = connection.execute(
            _FOUND, {"schema": MAPPING.table_schema, "name": MAPPING.table}
        ).one_or_none()
        connection.info["place"] = row and Place(
            row.oid, row.kind, row.nspname, MAPPING.schema_of_ours or row.nspname
        )
    place: Place | None = connection.info["place"]
    return place


def the_place(connection: Connection) -> Place:
    """The platform's table, which is there.

    Raises:
        SystemExit: it is not.
    """
    place = find_place(connection)
    if place is None:
        raise SystemExit(f"There is no table {sql_name(sites)}, and none is made.")
    return place
