"""Connections to the platform's database: every wait bounded, every session read the same way."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import make_url
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

CONNECT_TIMEOUT = 10
"""Seconds for one connection attempt."""

STATEMENT_TIMEOUT = 30
"""Seconds for one statement; longer is a query that lost its index or a server in trouble."""

SILENCE_TIMEOUT = 40
"""Seconds without an answer from the network before a connection counts as lost."""

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

_TRANSIENT_CLASSES = ("08", "40", "53", "57P")
"""SQLSTATE: connection lost, transaction rolled back, out of resources, server going or coming."""


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
    """An engine for the length of one run. Its errors carry no parameters and no password."""
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


@asynccontextmanager
async def autocommit(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """A connection on which each statement is a transaction of its own.

    For the writes, which are one statement each: no row stays locked while a worker that was
    stopped or killed owes the COMMIT. And for reads that want what is committed now.
    """
    async with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        yield connection


def sqlstate(error: BaseException) -> str | None:
    """The SQLSTATE of a database error; None for anything else, and for a failed connection."""
    return getattr(error.orig, "sqlstate", None) if isinstance(error, DBAPIError) else None


def is_locked(error: BaseException) -> bool:
    """Whether somebody held a lock for longer than a statement waits for one."""
    return sqlstate(error) == "55P03"


def is_transient(error: BaseException) -> bool:
    """Whether the same statement can succeed a moment later without anybody's help."""
    if not isinstance(error, DBAPIError):
        return False
    code = sqlstate(error)
    if code is None:
        return error.connection_invalidated or type(error).__name__ == "OperationalError"
    return code.startswith(_TRANSIENT_CLASSES) or is_locked(error)
