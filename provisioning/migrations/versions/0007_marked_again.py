"""How often the mark of a failed attempt was gone and set again."""

import sqlalchemy as sa
from alembic import op

from provisioning.schema import terminal_failures

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.add_column(
        terminal_failures.name,
        sa.Column("marked_again", sa.Integer, nullable=False, server_default="0"),
        schema=terminal_failures.schema,
    )


def downgrade() -> None:
    op.drop_column(terminal_failures.name, "marked_again", schema=terminal_failures.schema)
