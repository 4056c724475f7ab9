"""Runs the migrations on the database of PROVISION_DATABASE_URL, one process at a time."""

import time
from typing import Any

from alembic import context
from sqlalchemy import text
from sqlalchemy.engine import Connection

from provisioning.database import own_session
from provisioning.errors import DatabaseError
from provisioning.schema import tables
from provisioning.settings import settings

VERSION_TABLE = "provision_reaper_version"
MIGRATION_LOCK = 7_083_196_025
TURN_SECONDS = 600
POOLED = (
    "Migrations hold a lock for as long as they run, which needs a session of their own: run them "
    "with PROVISION_DATABASE_URL set to the server's own address, and without "
    "PROVISION_DATABASE_POOLED. The workers may go through the pooler."
)

OURS = {"terminal_failures", "notices", "sweep_refusals"}


def include_name(name: str | None, kind: str, _parents: Any) -> bool:
    """Compare our tables only: whatever else the platform keeps is none of our business."""
    return kind != "table" or name in OURS


def include_object(_object: Any, name: str | None, kind: str, _reflected: bool, _to: Any) -> bool:
    """As `include_name`, for the tables that our own schema declares."""
    return kind != "table" or name in OURS


def wait_for_turn(connection: Connection) -> None:
    """Hold the migration lock for this session.

    Asked for again and again, never waited for inside a statement: a waiting statement holds a
    snapshot, for which CREATE INDEX CONCURRENTLY in the other process would wait in turn.
    """
    deadline = time.monotonic() + TURN_SECONDS
    lock = text("SELECT pg_try_advisory_lock(:key)")
    while not connection.execute(lock, {"key": MIGRATION_LOCK}).scalar_one():
        connection.rollback()
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"another process has been migrating this database for {TURN_SECONDS} seconds: "
                "let it finish or end it, then run this again"
            )
        time.sleep(0.5)
    connection.commit()


def migrate() -> None:
    """Upgrade or downgrade, one transaction a migration."""
    config = settings()
    if config.database_pooled:
        raise SystemExit(POOLED)
    with own_session(config.database_url.get_secret_value()) as connection:
        wait_for_turn(connection)
        context.configure(
            connection=connection,
            target_metadata=tables,
            version_table=VERSION_TABLE,
            include_name=include_name,
            include_object=include_object,
            transaction_per_migration=True,
        )
        with context.begin_transaction():
            context.run_migrations()


if context.is_offline_mode():
    raise SystemExit("Offline mode is not supported: the migrations look at the database first.")
try:
    migrate()
except DatabaseError as error:
    raise SystemExit(f"Nothing more was migrated: {error}") from None
