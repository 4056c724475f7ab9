"""Who holds a row that stays locked, as far as the sweep's role may see it."""

from sqlalchemy import Text, and_, column, func, literal_column, select, table
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.database import autocommit
from provisioning.errors import DatabaseError
from provisioning.schema import sites
from provisioning.sweep.snapshot import Candidate
from provisioning.text import one_line

UNKNOWN = "who holds it can't be seen by this role; look at pg_locks and pg_stat_activity"

_site = sites.alias("site")
_lock = table(
    "pg_locks", *map(column, ("pid", "locktype", "transactionid", "granted")), schema="pg_catalog"
)
_session = table(
    "pg_stat_activity", *map(column, ("pid", "usename", "state", "xact_start")), schema="pg_catalog"
)

# Whoever changes or locks a row leaves the number of its transaction on it, and holds a lock on
# that number to its end. A prepared transaction holds it without a process.
_HOLDER = select(
    _lock.c.pid,
    _session.c.usename,
    _session.c.state,
    func.to_char(_session.c.xact_start, 'YYYY-MM-DD HH24":"MI', type_=Text()).label("since"),
).select_from(
    _site.join(
        _lock,
        and_(
            _lock.c.locktype == "transactionid",
            _lock.c.transactionid == literal_column("site.xmax"),
            _lock.c.granted,
        ),
    ).outerjoin(_session, _session.c.pid == _lock.c.pid)
)


async def who_holds(engine: AsyncEngine, site: Candidate) -> str:
    """A sentence on the session that holds the row and since when. No statement is shown.

    Best effort: other roles' sessions show little, and rights by column don't show the holder.
    """
    try:
        async with autocommit(engine) as connection:
            query = _HOLDER.where(_site.c.id == site.site_id)
            holder = (await connection.execute(query)).first()
    except DatabaseError:
        return UNKNOWN
    if holder is None:
        return UNKNOWN
    if holder.pid is None:
        return "a prepared transaction holds it; look at pg_prepared_xacts"
    state = f", {one_line(holder.state)}" if holder.state else ""
    since = f" since {holder.since} UTC" if holder.since else ""
    return f"process {holder.pid} of role {one_line(holder.usename)} holds it{state}{since}"
