"""What every upgrade ends with: whatever is missing of ours is made, also where no revision is due.

A tool that drops unused indexes, or a restore of some tables only, leaves a database at the newest
revision without all that the revisions made.
"""

from sqlalchemy import Connection, inspect
from sqlalchemy.schema import CreateIndex

from provisioning.migrations.building import say
from provisioning.migrations.in_flight import bring_up_to_date
from provisioning.migrations.place import the_place
from provisioning.migrations.status import VIEW, make_status
from provisioning.migrations.taken import OURS


def mend(connection: Connection) -> None:
    """Make what is missing. Needs a connection in autocommit."""
    home = the_place(connection).home
    for table in OURS:
        if not inspect(connection).has_table(table.name, schema=home):
            table.create(connection)
            say(f"Made the table {home}.{table.name}, which was missing: grant its rights again.")
        there = {index["name"] for index in inspect(connection).get_indexes(table.name, home)}
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            if index.name not in there:
                connection.execute(CreateIndex(index))
                say(f"Made the index {index.name}, which was missing.")
    bring_up_to_date(connection)
    if make_status(connection):
        say(f"Made the view {home}.{VIEW}: grant its rights again, as docs/dashboards.md says.")
