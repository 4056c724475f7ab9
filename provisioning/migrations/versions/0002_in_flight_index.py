"""The index that holds the sites in flight, built beside the platform's writers."""

from alembic import op

from provisioning.migrations.building import drop
from provisioning.migrations.definition import FUNCTION
from provisioning.migrations.in_flight import bring_up_to_date
from provisioning.migrations.place import find_place
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
        place = find_place(op.get_bind())
        if place:
            drop(op.get_bind(), place, IN_FLIGHT_INDEX)
        op.execute(f"DROP FUNCTION IF EXISTS {FUNCTION}(text)")
