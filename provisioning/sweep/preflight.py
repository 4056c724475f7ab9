"""Whether the database can be swept at all, and if not, what is wrong and what to do.

A sweep that could not look must never pass for one that found nothing, so each way in which the
answer of the query would be missing, stale or slow is named before it is asked.
"""

from dataclasses import dataclass

from sqlalchemy import text

from provisioning.database import Connection
from provisioning.errors import DatabaseUnready

MIGRATE = "Run `alembic upgrade head` with PROVISION_DATABASE_URL set to this database."


@dataclass(frozen=True)
class Facts:
    """What the catalog says of the database. None: the object in question does not exist."""

    database: str
    account: str
    standby: bool
    metadata_type: str | None
    function: bool
    index_valid: bool | None
    tables: bool
    may_read: bool | None
    may_write: bool | None


_FACTS = text("""
SELECT current_database() AS database,
       current_user AS account,
       pg_is_in_recovery() AS standby,
       (SELECT format_type(atttypid, atttypmod) FROM pg_attribute
         WHERE attrelid = to_regclass('sites') AND attname = 'metadata' AND NOT attisdropped
       ) AS metadata_type,
       to_regprocedure('iso_instant(text)') IS NOT NULL AS function,
       (SELECT indisvalid FROM pg_index
         WHERE indexrelid = to_regclass('sites_provision_in_flight')) AS index_valid,
       num_nulls(to_regclass('terminal_failures'), to_regclass('notices'),
                 to_regclass('sweep_refusals')) = 0 AS tables,
       has_table_privilege(to_regclass('sites'), 'SELECT')
         AND has_table_privilege(to_regclass('terminal_failures'), 'SELECT')
         AND has_table_privilege(to_regclass('notices'), 'SELECT')
         AND has_table_privilege(to_regclass('sweep_refusals'), 'SELECT') AS may_read,
       (SELECT has_column_privilege(attrelid, attnum, 'UPDATE') FROM pg_attribute
         WHERE attrelid = to_regclass('sites') AND attname = 'metadata')
         AND has_table_privilege(to_regclass('terminal_failures'), 'INSERT')
         AND has_table_privilege(to_regclass('notices'), 'INSERT')
         AND has_table_privilege(to_regclass('notices'), 'UPDATE')
         AND has_table_privilege(to_regclass('sweep_refusals'), 'INSERT')
         AND has_table_privilege(to_regclass('sweep_refusals'), 'UPDATE') AS may_write
""")


def complaint(facts: Facts, *, writes: bool) -> str | None:
    """What is wrong and what to do, the first obstacle first; None where nothing is.

    Args:
        writes: whether the sweep means to act; a dry run needs no right to write.
    """
    where = f"database {facts.database}"
    if facts.standby:
        return (
            f"{where} is a standby: what it shows is stale and it takes no writes. Point "
            "PROVISION_DATABASE_URL at the primary, or add ?target_session_attrs=read-write to it."
        )
    if facts.metadata_type is None:
        return (
            f"{where} has no table `sites` with a column `metadata` that {facts.account} can see. "
            f"Check that PROVISION_DATABASE_URL names the platform's database. {MIGRATE}"
        )
    if facts.metadata_type != "jsonb":
        return (
            f"`sites.metadata` is of type {facts.metadata_type}, and only jsonb can be swept: "
            "ALTER TABLE sites ALTER COLUMN metadata TYPE jsonb USING metadata::jsonb;"
        )
    if not (facts.function and facts.tables):
        return f"the migrations have not run on {where}. {MIGRATE}"
    if facts.index_valid is None:
        return f"the index sites_provision_in_flight is missing on {where}. {MIGRATE}"
    if not facts.index_valid:
        return (
            f"the index sites_provision_in_flight on {where} is invalid: its build goes on, or was "
            f"interrupted. Wait for it to end, or build it again. {MIGRATE}"
        )
    if not facts.may_read or (writes and not facts.may_write):
        return (
            f"{facts.account} lacks rights on {where}. It needs SELECT and UPDATE (metadata) on "
            "sites, SELECT and INSERT on terminal_failures, notices and sweep_refusals, and "
            "UPDATE on notices and sweep_refusals."
        )
    return None


async def require_ready(connection: Connection, *, writes: bool) -> None:
    """Check the catalog. One statement.

    Raises:
        DatabaseUnready: what is wrong, and what to do.
    """
    row = (await connection.execute(_FACTS)).mappings().one()
    problem = complaint(Facts(**row), writes=writes)
    if problem:
        raise DatabaseUnready(problem)
