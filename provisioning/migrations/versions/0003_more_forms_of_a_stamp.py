"""Stamps as Java, Go, Ruby and Rust print them are read, and documents encoded twice are seen."""

from alembic import op

from provisioning.migrations.in_flight import bring_up_to_date

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.get_context().autocommit_block():
        bring_up_to_date(op.get_bind())


def downgrade() -> None:
    """Nothing: an older program works with this function and this index."""
