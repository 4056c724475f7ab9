"""The view of numbers for dashboards."""

from alembic import op

from provisioning.migrations.status import drop_status, make_status

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    make_status(op.get_bind())


def downgrade() -> None:
    drop_status(op.get_bind())
