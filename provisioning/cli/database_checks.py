"""What the doctor says of the platform's database, as the role that sweeps it."""

import time
from collections.abc import AsyncIterator
from datetime import timedelta

from sqlalchemy import func, select, text
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.cli.checks import SILENCE, Check, ok, warning, wrong
from provisioning.database import autocommit
from provisioning.errors import Explained
from provisioning.outbox import desk
from provisioning.outbox.desk import Chosen, Standing
from provisioning.outbox.notices import Kind
from provisioning.schema import sites, sql_name
from provisioning.stamps import IN_FLIGHT, STARTED, UNREADABLE
from provisioning.sweep.catalog import read_facts
from provisioning.sweep.ends import LastEnd, read_last_end
from provisioning.sweep.preflight import complaints
from provisioning.sweep.result import blindness
from provisioning.sweep.snapshot import Snapshot, look
from provisioning.text import count, duration, one_line, sentences

OLDEST_VERSION = 150_000
"""PostgreSQL 15, as the server numbers its versions."""

THRESHOLD = timedelta(minutes=30)
EXAMPLES = 3
SLOW_SECONDS = 5.0
MANY_NOTICES = 10_000

_WITHOUT_OFFSET = STARTED.regexp_match(r"^\d{4}-\d\d-\d\d[Tt ][0-9:.,]+$")

_VERSION = text(
    "SELECT CAST(current_setting('server_version_num') AS int), current_setting('server_version')"
)

_HOOKS = text("""
SELECT tgname FROM pg_trigger
 WHERE tgrelid = CAST(:table AS regclass) AND NOT tgisinternal AND tgenabled <> 'D'
   AND tgtype & 16 <> 0  -- on UPDATE
UNION ALL
SELECT rulename FROM pg_rewrite
 WHERE ev_class = CAST(:table AS regclass) AND ev_type = '2' AND ev_enabled <> 'D'
 ORDER BY 1
""")


async def check_database(engine: AsyncEngine, where: str) -> AsyncIterator[Check]:
    """From the connection to the stamps. What can't be asked after a fault is left out.

    Args:
        where: the database's name and host, without a user.
    """
    async with autocommit(engine) as connection:
        number, version = (await connection.execute(_VERSION)).one()
        facts = await read_facts(connection)
    yield ok("connection", f"Database {where}, as the role {facts.account}.")
    yield check_version(number, version)
    found = complaints(facts, writes=True)
    for subject, problems in found.items():
        for problem in problems:
            yield wrong(subject, sentences(problem))
        if not problems:
            yield ok(subject, _FINE[subject])
    if any(found.values()):
        return
    yield await _hooks(engine)
    try:
        began = time.monotonic()
        seen = await look(engine, THRESHOLD, 1, writes=True)
        took = time.monotonic() - began
    except Explained as error:
        yield wrong("in flight", str(error))
        return
    yield check_in_flight(seen, took)
    yield check_unreadable(seen)
    if seen.on_hold_total:
        held = f"{count(seen.on_hold_total, 'site')} on hold: no sweep reaps what is on hold."
        yield warning("on hold", held)
    async for check in _offsets(engine):
        yield check
    yield await _notices(engine)
    yield check_last_sweep(await read_last_end(engine))


_FINE = {
    "session": "Encoding, formats and time limits of a session are as the program sets them.",
    "clock": "The database's and this machine's agree.",
    "table and index": f"Table {sql_name(sites)}, and the function and index of this program.",
    "row security": "None applies to this role.",
    "rights": "All that a sweep needs.",
}


def check_version(number: int, version: str) -> Check:
    """Whether the server is new enough. `number` is its `server_version_num`."""
    if number < OLDEST_VERSION:
        return wrong(
            "version", f"PostgreSQL {one_line(version)} is too old: the program needs 15 or newer."
        )
    return ok("version", f"PostgreSQL {one_line(version)}.")


async def _hooks(engine: AsyncEngine) -> Check:
    """Triggers and rules of the platform that can undo the mark."""
    async with autocommit(engine) as connection:
        found = await connection.execute(_HOOKS, {"table": sql_name(sites)})
        names = [one_line(name) for name in found.scalars()]
    if not names:
        return ok("triggers", "No trigger and no rule is on an update of the table.")
    return warning(
        "triggers",
        f"On each mark runs: {', '.join(names)}. See that none of them returns NULL or puts an "
        "older document back: a mark that does not stay makes sweeps end Incomplete.",
    )


def check_in_flight(seen: Snapshot, seconds: float) -> Check:
    """How many there are, and how long it took to see that."""
    found = (
        f"{count(seen.in_flight, 'site')}, {seen.stuck_total:,} of them started more than 30 "
        "minutes ago."
    )
    if seconds < SLOW_SECONDS:
        return ok("in flight", found)
    return warning(
        "in flight",
        f"{found} The look took {seconds:.0f} s, and a statement of a sweep is stopped after 30: "
        "see that the table is vacuumed, and stamp the end of sites that are long over.",
    )


def check_unreadable(seen: Snapshot) -> Check:
    """Sites that no sweep ever reaps, because nobody can say since when they are in flight."""
    total = seen.unreadable_total
    if not total:
        return ok("stamps", "All of them can be read.")
    examples = "; ".join(
        f"{site}: {site.stamp or '(empty)'}" for site in seen.unreadable[:EXAMPLES]
    )
    finding = (
        f"{total:,} of {seen.in_flight:,} can't be read, and these sites are never reaped. "
        f"{examples}. Mend what writes them; docs/operating.md has the SQL for one site."
    )
    return wrong("stamps", finding) if blindness(seen) else warning("stamps", finding)


async def _offsets(engine: AsyncEngine) -> AsyncIterator[Check]:
    """Stamps that may mean another instant than their writer thinks."""
    asked = select(
        func.count().filter(_WITHOUT_OFFSET, ~UNREADABLE).label("zoneless"),
        func.min(STARTED).filter(_WITHOUT_OFFSET, ~UNREADABLE).label("example"),
    ).where(IN_FLIGHT)
    async with autocommit(engine) as connection:
        found = (await connection.execute(asked)).one()
    if found.zoneless:
        yield warning(
            "offsets",
            f"{count(found.zoneless, 'start stamp')} without an offset, such as "
            f"{one_line(found.example)}, read as UTC. Does your platform write local time? Then "
            "sites are failed too early or too late: let it write the offset.",
        )


async def _notices(engine: AsyncEngine) -> Check:
    """What a person has to see to: a teardown that was given up keeps runs red."""
    listed = await desk.look_up(engine, Chosen(all=True), limit=MANY_NOTICES)
    owed = sum(standing is Standing.OWED for standing, _ in listed)
    given_up = sum(
        standing is Standing.GIVEN_UP and notice.kind is Kind.TEARDOWN
        for standing, notice in listed
    )
    finding = f"{count(owed, 'notice')} owed."
    if not given_up:
        return ok("notices", finding)
    return warning(
        "notices",
        f"{finding} {count(given_up, 'teardown')} given up, and runs end Incomplete until you "
        "see to it: `provision-reaper notices list`, then `resend` or `acknowledge`.",
    )


def check_last_sweep(last: LastEnd | None) -> Check:
    """When somebody last swept this database, whichever Prefect server started it."""
    if last is None:
        return warning("last sweep", "None has ended here yet; dry runs do not count.")
    ago = last.looked_at - last.ended_at
    ended = f"The last one here ended {duration(ago)} ago, {one_line(last.state)}"
    if ago > SILENCE:
        return wrong(
            "last sweep", f"{ended}. Is its worker's PROVISION_DATABASE_URL this database?"
        )
    return ok("last sweep", f"{ended}.")
