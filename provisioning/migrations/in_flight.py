"""The function that reads a stamp and the index on it, made and replaced beside the writers.

An index keeps what its function gave when each row was written. So a function that an index stands
on is never replaced: a new one and an index on it are built under other names, and then one
statement gives both pairs each other's names. Before it and after it, whoever asks for
`iso_instant` and `sites_provision_in_flight` gets a pair that belongs together.
"""

from sqlalchemy import Connection

from provisioning.migrations.building import build, drop, say
from provisioning.migrations.definition import FUNCTION, is_ours, like_ours
from provisioning.migrations.iso_instant import create_iso_instant
from provisioning.migrations.place import Place, the_place
from provisioning.migrations.statements import run
from provisioning.stamps import IN_FLIGHT_INDEX

NEXT = "_next"
OLD = "_old"


def bring_up_to_date(connection: Connection) -> None:
    """Make the function and the index those of this program; nothing where they are.

    Stopped at any point, it is finished by a second run. Needs a connection in autocommit.
    """
    place = the_place(connection)
    # The lock bound is minutes and the only one: a build waits for every older transaction, and a
    # build that is cut leaves an invalid index.
    run(connection, "SET statement_timeout = 0")
    run(connection, "SET lock_timeout = '10min'")
    if is_current(connection):
        _drop_leftovers(connection, place)
        _let_all_call(connection, place, FUNCTION)
        return
    function = _make_function(connection, place)
    _let_all_call(connection, place, function)
    # On a partitioned table an interrupted build is gone on with, and a CONCURRENTLY one can't be.
    if place.kind != "p" or not _is_there(connection, place, IN_FLIGHT_INDEX + NEXT, function):
        drop(connection, place, IN_FLIGHT_INDEX + NEXT)
    build(connection, place, IN_FLIGHT_INDEX + NEXT, function)
    if not is_current(connection):
        run(connection, _swap(place, function))
    _drop_leftovers(connection, place)
    say(f"The function {FUNCTION} and the index {IN_FLIGHT_INDEX} on {place.table} are in place.")


def is_current(connection: Connection) -> bool:
    """Whether the function and a valid index on it are there, as this program has them."""
    place = the_place(connection)
    return bool(is_ours(connection, place, FUNCTION)) and _is_there(
        connection, place, IN_FLIGHT_INDEX, FUNCTION, valid=True
    )


def _is_there(
    connection: Connection, place: Place, index: str, function: str, *, valid: bool = False
) -> bool:
    return any(
        found.relname == index and (found.valid or not valid)
        for found in like_ours(connection, place.oid, place.home, function)
    )


def _make_function(connection: Connection, place: Place) -> str:
    """The name of a function that is this program's: the one that is there, or a new one."""
    there = is_ours(connection, place, FUNCTION)
    if there:
        return FUNCTION
    name = FUNCTION if there is None else FUNCTION + NEXT
    if not is_ours(connection, place, name):
        _drop_leftovers(connection, place)
        run(connection, create_iso_instant(place.function(name)))
    return name


def _let_all_call(connection: Connection, place: Place, function: str) -> None:
    # The platform's own role computes the key whenever it writes to a row in flight.
    run(connection, f"GRANT EXECUTE ON FUNCTION {place.function(function)}(text) TO PUBLIC")


def _swap(place: Place, function: str) -> str:
    """One statement: the new pair takes the names, and what had them is put aside."""
    functions = f"""
      IF to_regprocedure('{_quoted(place.function(FUNCTION))}(text)') IS NOT NULL THEN
        ALTER FUNCTION {place.function(FUNCTION)}(text) RENAME TO {FUNCTION}{OLD};
      END IF;
      ALTER FUNCTION {place.function(function)}(text) RENAME TO {FUNCTION};
    """
    return f"""
    DO $swap$ BEGIN
      {functions if function != FUNCTION else ""}
      ALTER INDEX IF EXISTS {place.index(IN_FLIGHT_INDEX)} RENAME TO {IN_FLIGHT_INDEX}{OLD};
      ALTER INDEX {place.index(IN_FLIGHT_INDEX + NEXT)} RENAME TO {IN_FLIGHT_INDEX};
    END $swap$
    """


def _quoted(text: str) -> str:
    return text.replace("'", "''")


def _drop_leftovers(connection: Connection, place: Place) -> None:
    """Drop what an earlier run built and did not come to use, and what it put aside."""
    for suffix in (NEXT, OLD):
        drop(connection, place, IN_FLIGHT_INDEX + suffix)
        run(connection, f"DROP FUNCTION IF EXISTS {place.function(FUNCTION + suffix)}(text)")
