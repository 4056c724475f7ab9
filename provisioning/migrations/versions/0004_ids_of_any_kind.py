"""The ledger takes the id of any platform's table: an integer, a uuid or text, kept as text."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    # A worker of the program before this one compares the column with a number, so its statement
    # fails as a whole, and writes nothing, until it is replaced.
    op.alter_column("terminal_failures", "site_id", type_=sa.Text, postgresql_using="site_id::text")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.alter_column(
        "terminal_failures", "site_id", type_=sa.BigInteger, postgresql_using="site_id::bigint"
    )
