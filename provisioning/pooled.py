"""Through a connection pooler: nothing belongs to the session, for it is somebody else's next.

Each statement brings its bounds and formats along, in one message of the simple query protocol. The
server runs such a message as one transaction and commits it at its end by itself, so a worker that
is killed meanwhile owes no COMMIT, and no setting and no prepared statement is left behind.
"""

from datetime import timedelta
from typing import Any

from psycopg import AsyncClientCursor, AsyncConnection
from psycopg.abc import AdaptContext, Buffer, Params
from psycopg.pq import TransactionStatus
from psycopg.types.datetime import IntervalLoader, TimestamptzLoader

from provisioning.session import as_statement

_BOUNDS = f"{as_statement()};"


class BoundedCursor(AsyncClientCursor[Any]):
    """Runs each statement under the settings of `session`, and shows its result alone."""

    async def execute(self, query: Any, params: Params | None = None, **how: Any) -> Any:
        """As every cursor does, for a statement that is a plain text."""
        if self.connection.info.transaction_status is not TransactionStatus.INTRANS:
            # The level of a transaction is chosen when it begins.
            level = "SET LOCAL transaction_isolation = 'read committed';"
            query = f"{level if self.connection.autocommit else ''}{_BOUNDS}{query}"
        await super().execute(query.encode(), params, **how)
        return await self.set_result(-1)


# The driver asks which formats the session has. A statement that brings its own has others.
class _Timestamps(TimestamptzLoader):
    def __init__(self, oid: int, _context: AdaptContext | None = None) -> None:
        super().__init__(oid)


class _Intervals(IntervalLoader):
    def load(self, data: Buffer) -> timedelta:
        return self._load_postgres(self, data)


async def connect_pooled(**parameters: Any) -> AsyncConnection:
    """A connection to a pooler, with `parameters` as psycopg's own."""
    # An empty `options` keeps libpq from taking those of PGOPTIONS.
    connection = await AsyncConnection.connect(
        **parameters | {"options": ""}, prepare_threshold=None, cursor_factory=BoundedCursor
    )
    connection.adapters.register_loader("timestamptz", _Timestamps)
    connection.adapters.register_loader("interval", _Intervals)
    return connection
