"""The ledger, the notices and the refusals."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    connection = op.get_bind()
    connection.exec_driver_sql("SET LOCAL lock_timeout = '5s'")
    op.create_table(
        "terminal_failures",
        sa.Column("id", sa.Uuid, primary_key=True),
        sa.Column("site_id", sa.BigInteger, nullable=False),
        sa.Column("attempt", sa.Text, nullable=False),
        sa.Column(
            "failed_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()
        ),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("flow_run_id", sa.Uuid),
        sa.UniqueConstraint("site_id", "attempt", name="terminal_failures_site_attempt"),
        sa.CheckConstraint(
            "source IN ('watchdog', 'approved', 'chain')", name="terminal_failures_source"
        ),
    )
    op.create_index(
        "terminal_failures_watchdog",
        "terminal_failures",
        ["failed_at"],
        postgresql_where=sa.text("source = 'watchdog'"),
    )
    op.create_table(
        "notices",
        sa.Column("id", sa.Uuid, primary_key=True),
        sa.Column(
            "failure_id",
            sa.Uuid,
            sa.ForeignKey("terminal_failures.id", name="notices_failure"),
            nullable=False,
        ),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("url", sa.Text),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column(
            "next_attempt_at",
            sa.DateTime(timezone=True),
            nullable=False,
            server_default=sa.func.now(),
        ),
        sa.Column("delivered_at", sa.DateTime(timezone=True)),
        sa.Column("given_up_at", sa.DateTime(timezone=True)),
        sa.Column("last_error", sa.Text),
        sa.UniqueConstraint("failure_id", "kind", name="notices_failure_kind"),
        sa.CheckConstraint("kind IN ('webhook', 'teardown')", name="notices_kind"),
    )
    op.create_index(
        "notices_owed",
        "notices",
        ["next_attempt_at"],
        postgresql_where=sa.text("delivered_at IS NULL AND given_up_at IS NULL"),
    )
    op.create_index(
        "notices_given_up",
        "notices",
        ["given_up_at"],
        postgresql_where=sa.text("given_up_at IS NOT NULL"),
    )
    op.create_table(
        "sweep_refusals",
        sa.Column("flow_run_id", sa.Uuid, primary_key=True),
        sa.Column(
            "refused_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()
        ),
        sa.Column("cap", sa.Integer, nullable=False),
        sa.Column("candidates", JSONB, nullable=False),
    )
    op.create_index("sweep_refusals_refused_at", "sweep_refusals", ["refused_at"])


def downgrade() -> None:
    """Takes back what is ours. `sites` is the platform's and stays."""
    op.drop_table("sweep_refusals")
    op.drop_table("notices")
    op.drop_table("terminal_failures")
