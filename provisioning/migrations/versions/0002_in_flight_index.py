"""The index that holds the sites in flight, built beside the platform's writers."""

from alembic import op

from provisioning.migrations.in_flight import FUNCTION, bring_up_to_date
from provisioning.stamps import IN_FLIGHT_INDEX

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.get_context().autocommit_block():
        bring_up_to_date(op.get_bind())


def downgrade() -> None:
    with op.get_context().autocommit_block():
        op.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {IN_FLIGHT_INDEX}")
        op.execute(f"DROP FUNCTION IF EXISTS {FUNCTION}(text)")
