"""Connections to the platform's database: every wait bounded, every session read the same way.

No exception of the driver or of SQLAlchemy leaves this module.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, TypeVarTuple, overload

import anyio
from sqlalchemy import CursorResult, Executable, make_url
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.sql.selectable import TypedReturnsRows

from provisioning.driver_errors import connection_failure, statement_failure

CONNECT_TIMEOUT = 10
"""Seconds for one connection attempt."""

SILENCE_TIMEOUT = 40
"""Seconds without an answer before a statement and its connection count as lost."""

STATEMENT_TIMEOUT = 30
"""Seconds for one statement; longer is a query that lost its index or a server in trouble."""

LOCK_TIMEOUT = "500ms"
"""How long a statement waits for a lock: then the site is `busy`, or the step is tried again."""

_SESSION = {
    # psycopg reads timestamptz under DateStyle ISO only, and databases and roles may differ.
    "timezone": "UTC",
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    # Rather an error than rows that a policy hides from the sweep.
    "row_security": "off",
    "default_transaction_isolation": "read\\ committed",
    "statement_timeout": f"{STATEMENT_TIMEOUT}s",
    "lock_timeout": LOCK_TIMEOUT,
    "idle_in_transaction_session_timeout": f"{STATEMENT_TIMEOUT}s",
}


def session_settings() -> dict[str, str]:
    """The settings that every session has, by name, with their values as PostgreSQL shows them."""
    return {name: value.replace("\\", "") for name, value in _SESSION.items()}


def driver_url(url: str) -> URL:
    """A plain `postgresql://` URL, for SQLAlchemy with psycopg 3."""
    return make_url(url).set(drivername="postgresql+psycopg")


def connect_args(url: URL) -> dict[str, Any]:
    """The bounds of a connection, beside the `options` that its URL may carry."""
    own = url.query.get("options", "")
    ours = " ".join(f"-c {name}={value}" for name, value in _SESSION.items())
    return {
        "options": f"{own if isinstance(own, str) else ' '.join(own)} {ours}".strip(),
        "client_encoding": "utf8",
        "connect_timeout": CONNECT_TIMEOUT,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 4,
        "tcp_user_timeout": SILENCE_TIMEOUT * 1000,
        "application_name": "provision-reaper",
    }


@asynccontextmanager
async def database(url: str) -> AsyncIterator[AsyncEngine]:
    """An engine for the length of one run."""
    address = driver_url(url)
    engine = create_async_engine(
        address,
        connect_args=connect_args(address),
        hide_parameters=True,
        pool_size=5,
        max_overflow=0,
        pool_timeout=STATEMENT_TIMEOUT,
    )
    try:
        yield engine
    finally:
        await engine.dispose()


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
            raise failure
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
