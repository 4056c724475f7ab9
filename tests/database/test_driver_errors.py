"""Nothing of the driver leaves the database's module: no exception, row, parameter or URL."""

import logging
import pickle
import traceback
from collections.abc import Iterator
from types import TracebackType

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.database import autocommit, database, snapshot
from provisioning.errors import DatabaseError
from tests.sites import Sites

SECRET = "s3cret-0f-the-row"
SITE = 3_000_000_001

GUARDS = {
    "a constraint that prints the row": (
        "ALTER TABLE sites ADD CONSTRAINT no_marks CHECK (metadata ->> 'x' IS NULL)",
        "23514",
        "constraint no_marks, table sites",
    ),
    "a unique index that prints the key": (
        "CREATE UNIQUE INDEX one_secret ON sites ((metadata ->> 'x'))",
        "23505",
        "constraint one_secret, table sites",
    ),
    "a trigger that says the row": (
        "RAISE EXCEPTION 'no: %', NEW",
        "P0001",
        "code in the database",
    ),
    "a trigger that says it in DETAIL and HINT": (
        "RAISE EXCEPTION 'no' USING DETAIL = NEW::text, HINT = NEW::text, ERRCODE = '42501'",
        "42501",
        "the database refused it.",
    ),
    "a trigger that says it as a constraint's name": (
        "RAISE EXCEPTION 'no' USING CONSTRAINT = NEW.metadata ->> 'x', ERRCODE = '23505'",
        "23505",
        "raised by code in it",
    ),
    "a trigger that casts a value": (
        "PERFORM (NEW.metadata ->> 'x')::int",
        "22P02",
        "code in the database",
    ),
    "a trigger that makes SQL of a value": (
        "EXECUTE 'SELECT ' || quote_ident(NEW.metadata ->> 'x')",
        "42703",
        "code in the database",
    ),
}

TRIGGER = (
    "CREATE FUNCTION guard() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {}; RETURN NEW; END $$",
    "CREATE TRIGGER guard BEFORE UPDATE ON sites FOR EACH ROW EXECUTE FUNCTION guard()",
)


@pytest.mark.parametrize(("guard", "code", "told"), GUARDS.values(), ids=list(GUARDS))
@pytest.mark.guarantee(
    fault="a constraint or a trigger of the platform that prints rows (G08)",
    holds="its code and the names of objects are told, and no value of the row",
    guard="with the words of code in the database trusted, the row's value stands in the message",
)
async def test_what_the_server_says_of_a_row_goes_no_further(
    engine: AsyncEngine, sites: Sites, guard: str, code: str, told: str
) -> None:
    await sites.add(SITE, {})
    await sites.add(SITE + 1, {"y": 1} if "CHECK" in guard else {"x": SECRET})
    for statement in [guard] if guard.startswith(("ALTER", "CREATE")) else TRIGGER:
        await sites.run(statement.format(guard).replace(":", r"\:"))
    with pytest.raises(DatabaseError) as caught:
        async with autocommit(engine) as connection:
            await connection.execute(
                text("UPDATE sites SET metadata = jsonb_build_object('x', CAST(:x AS text))"),
                {"x": SECRET},
            )
    assert caught.value.sqlstate == code
    assert told in str(caught.value)
    assert_alone(caught.value)


@pytest.mark.parametrize("statement", ["selec", "SELECT 1/0", "SELECT * FROM nothing_here"])
async def test_neither_a_statement_nor_its_error_stays_with_ours(
    engine: AsyncEngine, statement: str
) -> None:
    with pytest.raises(DatabaseError) as caught:
        async with snapshot(engine) as connection:
            await connection.execute(text(statement))
    assert not caught.value.transient
    assert_alone(caught.value)


async def test_a_failed_connection_is_ours_too() -> None:
    with pytest.raises(DatabaseError) as caught:
        async with (
            database(f"postgresql://u:{SECRET}@127.0.0.1:1/shop") as engine,
            autocommit(engine),
        ):
            pass
    assert caught.value.transient
    assert_alone(caught.value)


@pytest.mark.parametrize("name", ["psycopg", "sqlalchemy.pool.impl.AsyncAdaptedQueuePool"])
def test_the_loggers_that_print_the_drivers_exceptions_are_silent(name: str) -> None:
    assert not logging.getLogger(name).isEnabledFor(logging.ERROR)


def assert_alone(error: DatabaseError) -> None:
    """No driver's exception is held by it or by the frames it came through, and no secret."""
    shown = "".join(traceback.format_exception(error)) + repr(vars(error))
    for kept in (shown, repr(error), pickle.dumps(error).decode("latin-1")):
        assert SECRET not in kept
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert error.__cause__ is None
    assert error.__context__ is None
    for value in ours(error.__traceback__):
        assert not isinstance(value, (psycopg.Error, SQLAlchemyError)), value


def ours(trace: TracebackType | None) -> Iterator[object]:
    """What the frames of an error hold in their variables."""
    while trace:
        yield from trace.tb_frame.f_locals.values()
        trace = trace.tb_next
