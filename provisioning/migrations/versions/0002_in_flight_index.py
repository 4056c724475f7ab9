"""The index that holds the sites in flight, built beside the platform's writers."""

from alembic import op
from sqlalchemy.schema import CreateIndex

from provisioning.stamps import IN_FLIGHT_INDEX

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """An interrupted build leaves an invalid index behind, which IF NOT EXISTS would keep."""
    with op.get_context().autocommit_block():
        connection = op.get_bind()
        # The lock bound is minutes and the only one: a build waits for every older transaction,
        # and a build that is cut leaves an invalid index.
        connection.exec_driver_sql("SET statement_timeout = 0")
        connection.exec_driver_sql("SET lock_timeout = '10min'")
        leftover = connection.exec_driver_sql(
            "SELECT 1 FROM pg_index WHERE NOT indisvalid "
            f"AND indexrelid = to_regclass('{IN_FLIGHT_INDEX.name}')"
        ).first()
        if leftover:
            connection.exec_driver_sql(f"DROP INDEX CONCURRENTLY {IN_FLIGHT_INDEX.name}")
        connection.execute(CreateIndex(IN_FLIGHT_INDEX, if_not_exists=True))


def downgrade() -> None:
    with op.get_context().autocommit_block():
        op.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {IN_FLIGHT_INDEX.name}")
