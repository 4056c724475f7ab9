"""The database knows when its last sweep ended."""

from alembic import op
from sqlalchemy import text

from provisioning.migrations.place import the_place
from provisioning.migrations.status import drop_status
from provisioning.schema import sweep_ends, sweep_refusals

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_SWEEPERS = text("""
SELECT DISTINCT CAST(CAST(grantee AS regrole) AS text)
  FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace, aclexplode(relacl)
 WHERE relname = :name AND nspname = :home AND privilege_type = 'INSERT'
   AND grantee NOT IN (0, relowner)
""")


def upgrade() -> None:
    """Make the table, for the roles that sweep today: no upgrade takes their sweeps away."""
    connection = op.get_bind()
    place = the_place(connection)
    sweep_ends.create(connection, checkfirst=True)
    wanted = {"name": sweep_refusals.name, "home": place.home}
    for role in connection.execute(_SWEEPERS, wanted).scalars():
        op.execute(f"GRANT SELECT, INSERT, UPDATE ON {place.function(sweep_ends.name)} TO {role}")


def downgrade() -> None:
    drop_status(op.get_bind())
    sweep_ends.drop(op.get_bind())
