"""An index built beside the platform's writers, on a table or on each partition of one, with news.

No statement here makes a writer wait for longer than it takes to notice the lock: a build is
CONCURRENTLY, and the short locks on what holds the partitions together are asked for again and
again, each time for a moment.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from sqlalchemy import Connection, Engine, Row, text
from sqlalchemy.exc import OperationalError

from provisioning.migrations.definition import columns_and_condition, like_ours
from provisioning.migrations.place import Place
from provisioning.migrations.statements import run
from provisioning.schema import sql_name
from provisioning.stamps import IN_FLIGHT_INDEX

PATIENCE_SECONDS = 600
"""How long a migration goes on asking for a lock that others hold."""

MOMENT = "50ms"
"""How long it asks each time: as long may a writer wait behind it."""

NEWS_SECONDS = 5.0

_PARTITIONS = text("""
SELECT c.oid, CAST(relkind AS text) AS kind, format('%I.%I', nspname, relname) AS name,
       EXISTS (SELECT FROM pg_index i JOIN pg_inherits ON inhrelid = i.indexrelid
                WHERE i.indrelid = c.oid AND inhparent = :index) AS attached
  FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid JOIN pg_namespace n ON n.oid = relnamespace
 WHERE inhparent = :table AND NOT inhdetachpending
 ORDER BY name
""")

_PROGRESS = text("""
SELECT phase, blocks_done, blocks_total, lockers_total
  FROM pg_stat_progress_create_index WHERE pid = :backend
""")


def say(line: str) -> None:
    """Tell the operator, at once."""
    print(line, flush=True)


def build(connection: Connection, place: Place, index: str, function: str) -> None:
    """Build the index of that name on the platform's table, on that function.

    On a partitioned table what an interrupted build left is taken over.
    """
    if place.kind == "p":
        _build_split(connection, place, place.oid, place.table, function, index)
    else:
        _build_plain(connection, place, place.table, function, index)


def drop(connection: Connection, place: Place, index: str) -> None:
    """Drop an index of the platform's table, where there is one by that name."""
    if place.kind == "p":
        # CONCURRENTLY does not exist for an index of partitions.
        briefly(connection, f"DROP INDEX IF EXISTS {place.index(index)}")
    else:
        run(connection, f"DROP INDEX CONCURRENTLY IF EXISTS {place.index(index)}")


def briefly(connection: Connection, statement: str) -> None:
    """Run a statement that needs a strong lock, without a queue of writers behind it.

    Raises:
        SystemExit: others have held the lock for ten minutes.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    for turn in count():
        run(connection, f"SET lock_timeout = '{MOMENT}'")
        try:
            run(connection, statement)
            return
        except OperationalError as error:
            if getattr(error.orig, "sqlstate", None) != "55P03":
                raise
        finally:
            run(connection, "SET lock_timeout = '10min'")
        if time.monotonic() > deadline:
            raise SystemExit(
                f"Long transactions have kept the table locked for {PATIENCE_SECONDS} seconds. "
                "Look at pg_stat_activity, and run this again: it goes on from here."
            )
        if turn == 10:
            say("Waiting for transactions that are at the table ...")
        time.sleep(0.5)


def _build_plain(
    connection: Connection, place: Place, table: str, function: str, index: str = ""
) -> None:
    name = sql_name(index) if index else ""
    say(f"Building the index {name or 'of the partition'} on {table}, beside its writers ...")
    with _news(connection, table):
        run(
            connection,
            f"CREATE INDEX CONCURRENTLY {name} ON {table}"
            f" {columns_and_condition(connection, place, function)}",
        )


def _build_split(
    connection: Connection, place: Place, oid: int, table: str, function: str, index: str = ""
) -> None:
    """The index of a partitioned table, at any depth; the topmost has a name."""
    whole = _whole(connection, place, oid, function, index)
    if whole is None:
        # From here on new partitions get the index by themselves.
        briefly(
            connection,
            f"CREATE INDEX {sql_name(index) if index else ''} ON ONLY {table}"
            f" {columns_and_condition(connection, place, function)}",
        )
        whole = _whole(connection, place, oid, function, index)
        assert whole
    for part in connection.execute(_PARTITIONS, {"table": oid, "index": whole.oid}).all():
        if part.attached:
            continue
        if part.kind == "p":
            _build_split(connection, place, part.oid, part.name, function)
        else:
            _build_part(connection, place, part.oid, part.name, function)
        piece = _free(connection, place, part.oid, function)[0]
        briefly(connection, f"ALTER INDEX {whole.name} ATTACH PARTITION {piece.name}")


def _whole(
    connection: Connection, place: Place, oid: int, function: str, index: str
) -> Row[Any] | None:
    """The index of a partitioned table, if an earlier run or somebody's hand began it."""
    found = _free(connection, place, oid, function)
    names = (index, IN_FLIGHT_INDEX)
    return next((each for each in found if not index or each.relname in names), None)


def _free(connection: Connection, place: Place, oid: int, function: str) -> list[Row[Any]]:
    """The indexes like ours on a table that are no part of another index; valid ones first."""
    found = like_ours(connection, oid, place.home, function)
    return [each for each in found if not each.attached]


def _build_part(connection: Connection, place: Place, oid: int, table: str, function: str) -> None:
    """The index of one partition, which may have one already: by hand, or from an earlier run."""
    for found in _free(connection, place, oid, function):
        if found.valid:
            say(f"{table} has the index already: {found.name}.")
            return
        run(connection, f"DROP INDEX CONCURRENTLY {found.name}")
    _build_plain(connection, place, table, function)


@contextmanager
def _news(connection: Connection, table: str) -> Iterator[None]:
    """Tell every few seconds how far the build on this connection is."""
    backend = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
    over = threading.Event()
    teller = threading.Thread(target=_tell, args=(connection.engine, backend, table, over))
    teller.start()
    began = time.monotonic()
    try:
        yield
    finally:
        over.set()
        teller.join()
    say(f"{table}: built in {time.monotonic() - began:.1f} s.")


def _tell(engine: Engine, backend: int, table: str, over: threading.Event) -> None:
    while not over.wait(NEWS_SECONDS):
        with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as watching:
            row = watching.execute(_PROGRESS, {"backend": backend}).one_or_none()
        if row is None:
            continue
        done = f", {100 * row.blocks_done // row.blocks_total} %" if row.blocks_total else ""
        waits = f", waits for {row.lockers_total} older transactions" if row.lockers_total else ""
        say(f"{table}: {row.phase}{done}{waits}")
