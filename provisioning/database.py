"""Connections to the platform's database: every wait bounded, every session read the same way.

No exception of the driver or of SQLAlchemy leaves this module.
"""

import logging
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    contextmanager,
)
from typing import Any, TypeVarTuple, overload

import anyio
import psycopg
import sqlalchemy
from sqlalchemy import CursorResult, Executable, NullPool, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.sql.selectable import TypedReturnsRows

from provisioning.database_url import parameters
from provisioning.driver_errors import POOLER, connection_failure, statement_failure
from provisioning.errors import DatabaseError
from provisioning.pooled import connect_pooled
from provisioning.session import SESSION, STATEMENT_TIMEOUT, as_options

for _name in ("psycopg", "sqlalchemy.pool"):  # they log the driver's exceptions as they are
    logging.getLogger(_name).setLevel(logging.CRITICAL)

CONNECT_TIMEOUT = 10
"""Seconds for one connection attempt."""

SILENCE_TIMEOUT = 40
"""Seconds without an answer before a statement and its connection count as lost."""


def parameters_of(url: str) -> dict[str, Any]:
    """The driver's parameters for a connection of its own, with our bounds and formats.

    What the URL or the environment has as `options` comes first, so that ours win.
    """
    found = parameters(url)
    own = found.get("options") or os.environ.get("PGOPTIONS", "")
    return found | {
        "options": f"{own} {as_options()}".strip(),
        "client_encoding": "UTF8",
        "connect_timeout": CONNECT_TIMEOUT,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 4,
        "tcp_user_timeout": SILENCE_TIMEOUT * 1000,
        "application_name": "provision-reaper",
    }


@asynccontextmanager
async def database(url: str, *, pooled: bool = False) -> AsyncIterator[AsyncEngine]:
    """An engine for the length of one run.

    Args:
        url: the database's address, as people have it.
        pooled: whether it leads to a connection pooler.
    """
    arguments = parameters_of(url)

    async def connect() -> psycopg.AsyncConnection:
        how = connect_pooled if pooled else psycopg.AsyncConnection.connect
        return await how(**arguments)

    engine = create_async_engine(
        "postgresql+psycopg://",
        async_creator=connect,
        use_native_hstore=False,
        hide_parameters=True,
        pool_size=5,
        max_overflow=0,
        pool_timeout=STATEMENT_TIMEOUT,
    )
    try:
        yield engine
    finally:
        await engine.dispose()


@contextmanager
def own_session(url: str) -> Iterator[sqlalchemy.Connection]:
    """A connection for the migrations, which need a session of their own and its settings.

    Raises:
        DatabaseError: there is no such session to be had, or something went wrong in it.
    """
    arguments = parameters_of(url)

    engine = sqlalchemy.create_engine(
        "postgresql+psycopg://",
        creator=lambda: psycopg.connect(**arguments),
        poolclass=NullPool,
        hide_parameters=True,
    )
    with ExitStack() as stack:
        failure = None
        try:
            connection = stack.enter_context(engine.connect())
        except Exception as error:  # noqa: BLE001
            failure = connection_failure(error)
        if failure:
            raise failure.with_traceback(None)
        try:
            _require_own_session(connection)
            yield connection
        except (SQLAlchemyError, psycopg.Error) as error:
            raise statement_failure(error) from None


def _require_own_session(connection: sqlalchemy.Connection) -> None:
    query = text(
        "SELECT name, current_setting(name) AS value FROM unnest(CAST(:names AS text[])) AS name"
    )
    rows = connection.execute(query, {"names": [*SESSION, "server_encoding"]}).all()
    connection.rollback()
    found = {row.name: row.value for row in rows}
    if found.pop("server_encoding") == "SQL_ASCII":
        raise DatabaseError(
            "the database has the encoding SQL_ASCII, so nobody knows what its texts mean: move it "
            "to a database of encoding UTF8 first."
        )
    if found != SESSION:
        raise DatabaseError(f"the settings of a session do not reach the server. {POOLER}")


Columns = TypeVarTuple("Columns")
Values = Mapping[str, Any]


class Connection:
    """A connection whose errors are ours."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    @overload
    async def execute(
        self, statement: TypedReturnsRows[*Columns], parameters: Values | None = None
    ) -> CursorResult[*Columns]: ...

    @overload
    async def execute(
        self, statement: Executable, parameters: Values | None = None
    ) -> CursorResult[*tuple[Any, ...]]: ...

    async def execute(
        self, statement: Executable, parameters: Values | None = None
    ) -> CursorResult[*tuple[Any, ...]]:
        """Run one statement; its rows have all been read when this returns.

        Raises:
            DatabaseError: the database did not do it.
        """
        try:
            with anyio.fail_after(SILENCE_TIMEOUT):
                return await self._connection.execute(statement, parameters)
        except Exception as error:  # noqa: BLE001
            failure = statement_failure(error)
        # Outside of the handler, so that the driver's exception is not kept as the context of ours.
        raise failure


@asynccontextmanager
async def _connected(engine: AsyncEngine, isolation: str) -> AsyncIterator[Connection]:
    async with AsyncExitStack() as stack:
        failure = None
        try:
            connection = await stack.enter_async_context(
                engine.execution_options(isolation_level=isolation).connect()
            )
        except Exception as error:  # noqa: BLE001
            failure = connection_failure(error)
        if failure:
            raise failure.with_traceback(None)
        yield Connection(connection)


def autocommit(engine: AsyncEngine) -> AbstractAsyncContextManager[Connection]:
    """A connection on which each statement is a transaction of its own.

    For the writes, which are one statement each: no row stays locked while a worker that was
    stopped or killed owes the COMMIT. And for reads that want what is committed now.

    Raises:
        DatabaseError: there is no connection to be had.
    """
    return _connected(engine, "AUTOCOMMIT")


def snapshot(engine: AsyncEngine) -> AbstractAsyncContextManager[Connection]:
    """A connection on which all statements see the same moment. For reads.

    Raises:
        DatabaseError: there is no connection to be had.
    """
    return _connected(engine, "REPEATABLE READ")
