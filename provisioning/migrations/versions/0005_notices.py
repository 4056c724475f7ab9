"""Names and details in columns, a key for each merchant, and what a person acknowledged."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.add_column("terminal_failures", sa.Column("domain", sa.Text))
    op.add_column("terminal_failures", sa.Column("detail", sa.Text))
    op.add_column("notices", sa.Column("secret", sa.Text))
    op.add_column("notices", sa.Column("receiver", sa.Text))
    op.add_column("notices", sa.Column("acknowledged_at", sa.DateTime(timezone=True)))
    # A URL is a secret, kept no longer than it is used; what is too long for one was never sent.
    op.execute("UPDATE notices SET url = NULL WHERE coalesce(delivered_at, given_up_at) < now()")
    op.execute("UPDATE notices SET url = left(url, 2049) WHERE length(url) > 2049")
    op.create_index(
        "notices_delivered",
        "notices",
        ["delivered_at"],
        postgresql_where=sa.text("delivered_at IS NOT NULL"),
    )


def downgrade() -> None:
    op.drop_index("notices_delivered", "notices")
    op.drop_column("notices", "acknowledged_at")
    op.drop_column("notices", "receiver")
    op.drop_column("notices", "secret")
    op.drop_column("terminal_failures", "detail")
    op.drop_column("terminal_failures", "domain")
