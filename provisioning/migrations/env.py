"""Runs the migrations on the database of PROVISION_DATABASE_URL, one process at a time."""

import time
from typing import Any

from alembic import context
from alembic.runtime.migration import MigrationContext, MigrationInfo
from sqlalchemy import text
from sqlalchemy.engine import Connection

from provisioning.database import own_session
from provisioning.errors import DatabaseError, SettingsInvalid
from provisioning.migrations.adoption import obstacles
from provisioning.migrations.building import say
from provisioning.migrations.mending import mend
from provisioning.migrations.place import find_place
from provisioning.migrations.statements import run
from provisioning.migrations.taken import OURS, VERSION_TABLE
from provisioning.schema import sql_name, tables
from provisioning.settings import settings

MIGRATION_LOCK = 7_083_196_025
TURN_SECONDS = 600
POOLED = (
    "Migrations hold a lock for as long as they run, which needs a session of their own: run them "
    "with PROVISION_DATABASE_URL set to the server's own address, and without "
    "PROVISION_DATABASE_POOLED. The workers may go through the pooler."
)

NAMES = {table.name for table in OURS}


def include_name(name: str | None, kind: str, _parents: Any) -> bool:
    """Compare our tables only: whatever else the platform keeps is none of our business."""
    return kind != "table" or name in NAMES


def include_object(_object: Any, name: str | None, kind: str, _reflected: bool, _to: Any) -> bool:
    """As `include_name`, for the tables that our own schema declares."""
    return kind != "table" or name in NAMES


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


def goes_to_head() -> bool:
    """Whether this is `alembic upgrade head`. Other commands have no destination, or another."""
    try:
        return context.get_revision_argument() == context.get_head_revision()
    except KeyError:
        return False


def look_first(connection: Connection) -> None:
    """End here, before anything is made, if anything is in the way."""
    found = obstacles(connection)
    connection.commit()
    if found:
        lines = "\n".join(f"- {sentence}" for sentence in found)
        raise SystemExit(f"Nothing was changed. In the way is:\n{lines}")


def feel_at_home(connection: Connection) -> None:
    """Make what no revision qualifies in the schema of our own objects, and look for it there."""
    place = find_place(connection)
    if place:
        run(connection, f"SET search_path TO {sql_name(place.home)}")
    connection.commit()


def tell(ctx: MigrationContext, step: MigrationInfo, heads: Any, run_args: Any) -> None:
    """Say which revision was applied."""
    script = context.script.get_revision(step.up_revision_id or "")
    say(f"{'Done' if step.is_upgrade else 'Taken back'}: {script.revision}, {script.doc}")


def migrate() -> None:
    """Upgrade or downgrade, one transaction a migration."""
    config = settings()
    if config.database_pooled:
        raise SystemExit(POOLED)
    with own_session(config.database_url.get_secret_value()) as connection:
        wait_for_turn(connection)
        upgrades = goes_to_head()
        if upgrades:
            look_first(connection)
        feel_at_home(connection)
        context.configure(
            connection=connection,
            target_metadata=tables,
            version_table=VERSION_TABLE,
            include_name=include_name,
            include_object=include_object,
            transaction_per_migration=True,
            on_version_apply=tell,
        )
        with context.begin_transaction():
            context.run_migrations()
        if upgrades:
            connection.commit()
            mend(connection.execution_options(isolation_level="AUTOCOMMIT"))
            say("Everything is in place.")


if context.is_offline_mode():
    raise SystemExit("Offline mode is not supported: the migrations look at the database first.")
try:
    migrate()
except SettingsInvalid as error:
    raise SystemExit(str(error)) from None
except DatabaseError as error:
    raise SystemExit(f"Nothing more was migrated: {error}") from None
