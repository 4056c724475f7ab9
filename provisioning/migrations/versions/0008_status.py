"""The view of numbers for dashboards, which each upgrade ends with: it reads later tables too."""

from alembic import op

from provisioning.migrations.status import drop_status

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    pass


def downgrade() -> None:
    drop_status(op.get_bind())
