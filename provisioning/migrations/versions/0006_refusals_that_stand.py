"""A refusal stands until it is over or a person acts; the ledger says what a person started."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Refusals of before are taken for answered, with the threshold that was the default."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.add_column(
        "terminal_failures",
        sa.Column("by_person", sa.Boolean, nullable=False, server_default=sa.text("false")),
    )
    op.add_column("terminal_failures", sa.Column("note", sa.Text))
    op.add_column(
        "sweep_refusals",
        sa.Column("threshold", sa.Interval, nullable=False, server_default=sa.text("'30 minutes'")),
    )
    op.add_column(
        "sweep_refusals",
        sa.Column("stands", sa.Boolean, nullable=False, server_default=sa.text("false")),
    )
    op.add_column(
        "sweep_refusals",
        sa.Column("over_at", sa.DateTime(timezone=True), server_default=sa.func.now()),
    )
    for column in ("threshold", "stands", "over_at"):
        op.alter_column("sweep_refusals", column, server_default=None)
    op.create_index(
        "sweep_refusals_open",
        "sweep_refusals",
        ["refused_at"],
        postgresql_where=sa.text("over_at IS NULL"),
    )


def downgrade() -> None:
    op.drop_index("sweep_refusals_open", "sweep_refusals")
    for column in ("over_at", "stands", "threshold"):
        op.drop_column("sweep_refusals", column)
    for column in ("note", "by_person"):
        op.drop_column("terminal_failures", column)
