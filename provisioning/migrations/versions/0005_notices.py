"""Names and details in columns, a key for each merchant, and what a person acknowledged."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from provisioning.migrations.statements import run
from provisioning.schema import notices as notices_table
from provisioning.schema import sql_name, tables

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

ADDED: list[tuple[str, str, Any]] = [
    ("terminal_failures", "domain", sa.Text),
    ("terminal_failures", "detail", sa.Text),
    ("notices", "secret", sa.Text),
    ("notices", "receiver", sa.Text),
    ("notices", "acknowledged_at", sa.DateTime(timezone=True)),
]


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    for table, column, kind in ADDED:
        op.add_column(table, sa.Column(column, kind), schema=tables.schema, if_not_exists=True)
    # A URL is a secret, kept no longer than it is used; what is too long for one was never sent.
    notices = sql_name(notices_table)
    connection = op.get_bind()
    run(
        connection,
        f"UPDATE {notices} SET url = NULL WHERE coalesce(delivered_at, given_up_at) < now()",
    )
    run(connection, f"UPDATE {notices} SET url = left(url, 2049) WHERE length(url) > 2049")
    op.create_index(
        "notices_delivered",
        "notices",
        ["delivered_at"],
        schema=tables.schema,
        if_not_exists=True,
        postgresql_where=sa.text("delivered_at IS NOT NULL"),
    )


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.drop_index("notices_delivered", "notices", schema=tables.schema)
    for table, column, _ in reversed(ADDED):
        op.drop_column(table, column, schema=tables.schema)
