"""Whether the database can be swept at all, and if not, what is wrong and what to do.

A sweep that could not look must never pass for one that found nothing, so each way in which the
answer of the query would be missing, stale, hidden or slow is named before it is asked.
"""

from collections.abc import Iterator
from datetime import timedelta

from provisioning.database import Connection
from provisioning.errors import ClocksDiffer, DatabaseUnready
from provisioning.schema import sites, sql_name
from provisioning.session import SESSION
from provisioning.stamps import IN_FLIGHT_INDEX
from provisioning.sweep.catalog import TO_WRITE, Facts, read_facts
from provisioning.text import duration, sentences

MIGRATE = "Run `alembic upgrade head` with PROVISION_DATABASE_URL set to this database"

CLOCK_TOLERANCE = timedelta(minutes=5)
"""How far the database's clock and the worker's may differ."""

_KINDS = {
    "v": "a view",
    "m": "a materialized view",
    "f": "a foreign table",
    "S": "a sequence",
    "i": "an index",
    "I": "an index",
    "c": "a type",
}
_TABLE = f"`{sql_name(sites)}`"
_METADATA = sites.c.metadata.name
_COLUMN = sql_name(_METADATA)


def complaints(facts: Facts, *, writes: bool) -> dict[str, list[str]]:
    """By what was looked at: all that is wrong, and what to do about each.

    A standby is told alone, since the rest follows from it.

    Args:
        writes: whether the sweep means to act; a dry run needs no right to write.
    """
    if facts.standby:
        return {
            "primary": [
                f"database {facts.database} is a standby: what it shows is stale and it takes no "
                "writes. Point PROVISION_DATABASE_URL at the primary, or add "
                "?target_session_attrs=read-write to it"
            ]
        }
    there = facts.kind in ("r", "p")
    return {
        "session": list(_session(facts)),
        "clock": list(_clock(facts)),
        "table and index": list(_objects(facts) if there else _no_table(facts)),
        "row security": list(_row_security(facts)),
        "rights": list(_rights(facts, writes=writes)),
    }


def complaint(facts: Facts, *, writes: bool) -> str | None:
    """All of it as sentences; None where nothing is wrong."""
    found = [problem for each in complaints(facts, writes=writes).values() for problem in each]
    return sentences(*found) if found else None


def _session(facts: Facts) -> Iterator[str]:
    if facts.encoding == "SQL_ASCII":
        yield (
            f"database {facts.database} has the encoding SQL_ASCII, in which nobody knows what "
            "a letter is. Move it to a database of encoding UTF8"
        )
    wrong = [
        f"{name} is {facts.settings.get(name)} and not {wanted}"
        for name, wanted in SESSION.items()
        if facts.settings.get(name) != wanted
    ]
    if wrong:
        yield (
            f"what the program sets for its sessions is not in force: {', '.join(wrong)}. Most "
            "likely a connection pooler dropped it: set PROVISION_DATABASE_POOLED=true, or give "
            "PROVISION_DATABASE_URL the address of the server itself"
        )


def _clock(facts: Facts) -> Iterator[str]:
    if abs(facts.ahead) > CLOCK_TOLERANCE:
        side = "ahead of" if facts.ahead > timedelta(0) else "behind"
        yield (
            f"the database's clock is {duration(abs(facts.ahead))} {side} the worker's, and one of "
            "them is wrong. Ages come from the database's clock: set the wrong one right"
        )


def _no_table(facts: Facts) -> Iterator[str]:
    where = f"database {facts.database}"
    if facts.kind is not None:
        kind = _KINDS.get(facts.kind, f"of kind {facts.kind}")
        yield (
            f"{_TABLE} in {where} is {kind}, and only a table can be swept. Set "
            "PROVISION_SITES_TABLE to the table behind it"
        )
        return
    seen = (
        f"There is {', '.join(facts.lookalikes)}: if that is it, set PROVISION_SITES_TABLE to it"
        if facts.lookalikes
        else "Check that PROVISION_DATABASE_URL names the platform's database"
    )
    yield (
        f"{where} has no table {_TABLE} that {facts.account} can see. {seen}. "
        "The migrations never create it"
    )


def _objects(facts: Facts) -> Iterator[str]:
    """The columns, and what the migrations make."""
    where = f"database {facts.database}"
    absent = [column.name for column in sites.columns if column.name not in facts.columns]
    if absent:
        yield (
            f"{where} has no table {_TABLE} with a column `{'` and a column `'.join(absent)}`. "
            "Check that PROVISION_DATABASE_URL names the platform's database"
        )
    kind = facts.columns.get(_METADATA, "jsonb")
    if kind != "jsonb":
        yield (
            f"`{sql_name(sites)}.{_COLUMN}` is of type {kind}, and only jsonb can be swept: "
            f"ALTER TABLE {sql_name(sites)} ALTER COLUMN {_COLUMN} TYPE jsonb "
            f"USING {_COLUMN}::jsonb;"
        )
    if absent or kind != "jsonb":
        return
    if facts.missing or facts.function is None:
        gone = [*facts.missing, *(["the function iso_instant"] if facts.function is None else [])]
        yield (
            f"the migrations have not run on {where}, or not all of what they made is there: "
            f"{', '.join(gone)} missing. {MIGRATE}"
        )
    elif not facts.function:
        yield f"the function iso_instant on {where} is not the one of this program. {MIGRATE}"
    elif facts.index is None:
        yield f"the index {IN_FLIGHT_INDEX} is missing on {where}. {MIGRATE}"
    elif facts.index == "invalid":
        yield (
            f"the index {IN_FLIGHT_INDEX} on {where} is invalid: its build goes on, or was "
            f"interrupted. Wait for it to end, or build it again. {MIGRATE}"
        )
    elif facts.index == "other":
        yield (
            f"the index {IN_FLIGHT_INDEX} on {where} is another one than this program's: its "
            f"expression or its condition differs. {MIGRATE}"
        )


def _row_security(facts: Facts) -> Iterator[str]:
    if facts.guarded:
        yield (
            f"row security applies to {facts.account} on {' and '.join(facts.guarded)}: rows may "
            "be hidden from it, or stay as they are when it changes them, without a word. Give the "
            f"role the right to see every row: ALTER ROLE {facts.account} BYPASSRLS; A policy FOR "
            "ALL is not enough, since nobody could tell when it stops to cover all rows"
        )


def _rights(facts: Facts, *, writes: bool) -> Iterator[str]:
    lacking = [
        *(f"USAGE ON SCHEMA {schema}" for schema in facts.schemas),
        *(str(right) for right in facts.lacking if writes or right not in TO_WRITE),
        *(["EXECUTE ON FUNCTION iso_instant(text)"] if facts.execute is False else []),
    ]
    if lacking:
        grants = " ".join(f"GRANT {right} TO {facts.account};" for right in lacking)
        yield f"{facts.account} lacks rights on database {facts.database}: {grants}"


async def require_ready(connection: Connection, *, writes: bool) -> None:
    """Check what the database says of itself. One statement.

    Raises:
        DatabaseUnready: what is wrong, and what to do; `ClocksDiffer` where a clock is.
    """
    facts = await read_facts(connection)
    problem = complaint(facts, writes=writes)
    if problem and abs(facts.ahead) > CLOCK_TOLERANCE:
        raise ClocksDiffer(problem, facts.ahead)
    if problem:
        raise DatabaseUnready(problem)
