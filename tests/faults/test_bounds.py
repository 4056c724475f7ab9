"""No wait without a bound: whatever hangs, the sweep ends by itself, and says what hung.

Each sweep is a process of its own, and all of them are started at once, since they only wait. Some
bounds are shortened; that the whole lengths fit into the flow's timeout is arithmetic, below.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from deployments.postgres import LocalPostgres
from flows.reap_stuck_provisions import FLOW_TIMEOUT
from flows.ui.alerts import TELL_SECONDS
from flows.ui.publish import PUBLISH_SECONDS
from provisioning.database import CONNECT_TIMEOUT
from provisioning.outbox import dispatcher, sender
from provisioning.session import STATEMENT_TIMEOUT
from tasks.policy import RETRY_DELAYS
from tests.commands import ROOT
from tests.sites import FIRST, site

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

DELAYS = 1.5 * sum(RETRY_DELAYS)
STARTUP = 30.0
"""Seconds for a process to come up and to leave, on a machine that starts ten of them at once."""


@dataclass
class Ended:
    """How a sweep's process ended."""

    name: str
    message: str
    seconds: float
    peak_mib: float
    log: str


class Sweeping:
    """A sweep in a process of its own."""

    def __init__(self, *changes: str, **environment: str) -> None:
        self.url = environment["PROVISION_DATABASE_URL"]
        self.folder = tempfile.TemporaryDirectory(prefix="sweep-")
        self.told, self.log = (Path(self.folder.name) / name for name in ("told", "log"))
        with self.told.open("w") as told, self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.one_sweep", *changes],
                cwd=ROOT,
                env=os.environ | environment,
                stdout=told,
                stderr=log,
            )

    def end(self, within: float, *, leaves: bool = True) -> Ended:
        """How the sweep ended.

        Args:
            leaves: whether its process must have ended, too. With an API that hangs Prefect goes
                on for a while to get rid of the logs and the events that it still holds.
        """
        deadline = time.monotonic() + within
        while self.process.poll() is None and (leaves or not self.told.read_text()):
            assert time.monotonic() < deadline, f"it goes on\n{self.log.read_text()}"
            time.sleep(0.1)
        self.close()
        ended = Ended(**json.loads(self.told.read_text()), log=self.log.read_text())
        print(f"{ended.seconds:.1f} s: {ended.name}: {ended.message}")
        return ended

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


class Listener:
    """Accepts connections on loopback, and has each of them served by a thread."""

    def __init__(self, serve: Callable[[socket.socket], None]) -> None:
        self.serve = serve
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.port = int(self.socket.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        held = []  # a socket that nobody holds is closed
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            held.append(connection)
            threading.Thread(target=self.serve, args=[connection], daemon=True).start()

    def close(self) -> None:
        self.socket.close()


def silence(_connection: socket.socket) -> None:
    """Accepts, and says nothing."""


class HangingApi(Listener):
    """A proxy in front of the Prefect API, which hangs from some moment on: its answers stop."""

    def __init__(self, api: str, hangs_at: re.Pattern[bytes] | None = None) -> None:
        host, port = api.removeprefix("http://").removesuffix("/api").split(":")
        self.upstream = (host, int(port))
        self.hangs_at = hangs_at
        self.hanging = threading.Event()
        super().__init__(self._forward)
        self.url = f"http://127.0.0.1:{self.port}/api"

    def _forward(self, client: socket.socket) -> None:
        server = socket.create_connection(self.upstream)
        back = threading.Thread(target=self._pump, args=[server, client], daemon=True)
        back.start()
        self._pump(client, server)

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                if self.hangs_at and self.hangs_at.search(data):
                    self.hanging.set()
                if self.hanging.is_set():
                    return  # both sockets stay open, and silent
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass


@contextmanager
def own_database(postgres: LocalPostgres, template: str, name: str) -> Iterator[str]:
    """A migrated database with three stuck sites."""
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(
            f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy".encode()
        )
    url = postgres.url(name)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            f"INSERT INTO sites SELECT {FIRST} + i, 'shop.example',"
            ' \'{"provision": {"started_at": "2025-01-15T14:00:00Z"}}\''
            " FROM generate_series(1, 3) AS i"
        )
    yield url


def query(url: str, statement: str) -> list[Any]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


@pytest.fixture(scope="module")
def sweeping(
    postgres: LocalPostgres, migrated_template: str, prefect_api: str
) -> Iterator[dict[str, Sweeping]]:
    """All sweeps of this file, started at once."""
    with ExitStack() as running:

        def database(name: str) -> str:
            return running.enter_context(own_database(postgres, migrated_template, f"hangs_{name}"))

        def listener(serve: Callable[[socket.socket], None]) -> Listener:
            listener = Listener(serve)
            running.callback(listener.close)
            return listener

        def sweep(url: str, *changes: str, api: str = prefect_api, **more: str) -> Sweeping:
            return Sweeping(*changes, PROVISION_DATABASE_URL=url, PREFECT_API_URL=api, **more)

        silent = listener(silence).port
        refused = "postgresql://reaper@127.0.0.1:1/shop"
        hanging = f"postgresql://reaper@127.0.0.1:{silent}/shop"

        locked = database("lock")
        lock = running.enter_context(psycopg.connect(locked))
        lock.execute("LOCK TABLE sites IN ACCESS EXCLUSIVE MODE")

        row = database("row")
        held = running.enter_context(psycopg.connect(row))
        held.execute("SELECT 1 FROM sites WHERE id = %s FOR UPDATE", [site(2)])

        slow = database("statement")
        query(slow, SLOW_FUNCTION)
        query(slow, f"{SLOW_TRIGGER} EXECUTE FUNCTION slow()")

        receiver = database("receiver")
        webhook = f'"http://127.0.0.1:{silent}/hook"'
        query(receiver, "UPDATE sites SET metadata ="
                        f" jsonb_set(metadata, '{{provision,webhook}}', '{webhook}')")  # fmt: skip

        artifacts = HangingApi(prefect_api, re.compile(rb"POST /api/artifacts/"))
        running.callback(artifacts.close)
        alerts = HangingApi(prefect_api, re.compile(rb"POST /api/events/filter"))
        running.callback(alerts.close)

        impatient = {"PREFECT_API_REQUEST_TIMEOUT": "10", "PREFECT_CLIENT_MAX_RETRIES": "0"}
        private = {"PROVISION_WEBHOOK_ALLOW_PRIVATE_NETWORKS": "true"}
        sweeps = {
            "refused": sweep(refused),
            "hanging": sweep(hanging, "provisioning.database.CONNECT_TIMEOUT=2"),
            "lock": sweep(locked),
            "row": sweep(row),
            "statement": sweep(slow, "session.statement_timeout=3s"),
            "receiver": sweep(receiver, **private),
            "artifacts": sweep(database("artifacts"), api=artifacts.url, **impatient),
            "alerts": sweep(database("alerts"), api=alerts.url),
        }
        try:
            yield sweeps
        finally:
            for one in sweeps.values():
                one.close()


SLOW_TRIGGER = f"CREATE TRIGGER slow BEFORE UPDATE ON sites FOR EACH ROW WHEN (OLD.id = {site(2)})"
MARKING = """
SELECT pid FROM pg_stat_activity
 WHERE datname = current_database() AND application_name = 'provision-reaper'
   AND wait_event = 'PgSleep' AND query LIKE '%UPDATE sites%'
"""
SLOW_FUNCTION = """
CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_sleep(600); RETURN NEW; END $$
"""


def test_the_longest_waits_of_the_steps_fit_into_the_flows_timeout() -> None:
    """A statement that hangs at each of 25 sites does not: then it is the timeout that ends it."""
    look = (len(RETRY_DELAYS) + 1) * CONNECT_TIMEOUT + DELAYS + STATEMENT_TIMEOUT
    send = dispatcher.BEGIN_WITHIN + sender.DEADLINE
    assert send < 60
    assert look + send + 3 * PUBLISH_SECONDS < FLOW_TIMEOUT / 2


@contextmanager
def stopped_in_its_mark(
    postgres: LocalPostgres, template: str, api: str, name: str, change: str
) -> Iterator[Sweeping]:
    """A sweep whose server process stops in the middle of a mark, and goes on after the block.

    Its socket stays open and its machine answers.
    """
    with own_database(postgres, template, name) as url:
        query(url, SLOW_FUNCTION)
        query(url, f"{SLOW_TRIGGER} EXECUTE FUNCTION slow()")
        sweep = Sweeping(change, PROVISION_DATABASE_URL=url, PREFECT_API_URL=api)
        backend = marking(url)
        os.kill(backend, signal.SIGSTOP)
        try:
            yield sweep
        finally:
            os.kill(backend, signal.SIGCONT)
            sweep.close()


@pytest.mark.long
@pytest.mark.guarantee(
    fault="a database process that stops (SIGSTOP) in mid-statement",
    holds="the flow's timeout ends the run: TimedOut",
)
def test_a_server_process_that_stops_in_mid_statement(
    sweeping: dict[str, Sweeping], postgres: LocalPostgres, migrated_template: str, prefect_api: str
) -> None:
    """Only the flow's timeout is left to end it."""
    with stopped_in_its_mark(
        postgres, migrated_template, prefect_api, "hangs_stopped", "flow.timeout_seconds=15"
    ) as sweep:
        ended = sweep.end(within=STARTUP + 30)
    assert ended.name == "TimedOut"
    assert ended.seconds < STARTUP + 30


@pytest.mark.guarantee(
    fault="a database process that stops in mid-run (G32)",
    holds="that site is errored, the others are not asked for: Incomplete, not reached, reported",
    guard="without `_database_is_gone`, the third site is asked for as well",
)
def test_a_database_that_goes_silent_in_mid_run(
    postgres: LocalPostgres, migrated_template: str, prefect_api: str
) -> None:
    with stopped_in_its_mark(
        postgres, migrated_template, prefect_api, "goes_silent", "flows.sites.SITE_SECONDS=5"
    ) as sweep:
        ended = sweep.end(within=STARTUP + 30)
    assert ended.name == "Incomplete"
    assert "1 errored, 1 not reached" in ended.message
    assert "the database was gone" in ended.log


def marking(url: str) -> int:
    """The process that serves a sweep in the middle of the slow site's mark."""
    deadline = time.monotonic() + 120
    while not (found := query(url, MARKING)):
        assert time.monotonic() < deadline, "no sweep came to its marks"
        time.sleep(0.05)
    return int(found[0][0])


@pytest.mark.guarantee(
    fault="a connection that is refused",
    holds="Failed after the retries, within 25 seconds",
)
def test_a_connection_that_is_refused(sweeping: dict[str, Sweeping]) -> None:
    ended = sweeping["refused"].end(within=STARTUP + 2 * DELAYS)
    assert ended.name == "Failed"
    assert "Could not look: nobody listens" in ended.message
    assert ended.seconds < DELAYS + STARTUP


@pytest.mark.guarantee(
    fault="a connection that is accepted and never answered",
    holds="Failed after five bounded tries",
)
def test_a_connection_that_hangs(sweeping: dict[str, Sweeping]) -> None:
    ended = sweeping["hanging"].end(within=STARTUP + 2 * DELAYS + 10)
    assert ended.name == "Failed"
    assert "Could not look: the host of PROVISION_DATABASE_URL did not answer" in ended.message
    assert ended.seconds < DELAYS + 5 * 2 + STARTUP


@pytest.mark.guarantee(
    fault="a lock on the whole table",
    holds="Failed after the retries; no statement waits for a lock for more than half a second",
)
def test_a_table_that_is_locked(sweeping: dict[str, Sweeping]) -> None:
    ended = sweeping["lock"].end(within=STARTUP + 2 * DELAYS + 10)
    assert ended.name == "Failed"
    assert "Could not look: somebody holds a lock" in ended.message
    assert ended.seconds < DELAYS + STARTUP


@pytest.mark.guarantee(
    fault="a row that somebody holds",
    holds="that site is busy, the others are reaped",
    guard="with a lock timeout of 100 seconds, errored",
)
def test_a_row_that_is_held(sweeping: dict[str, Sweeping]) -> None:
    ended = sweeping["row"].end(within=STARTUP + 10)
    assert ended.name == "Incomplete", "it has been stuck for more than twice the threshold"
    assert "2 reaped, 1 busy, left to the next sweep" in ended.message


@pytest.mark.guarantee(
    fault="a statement that hangs",
    holds="that site is errored, the others are reaped",
)
def test_a_statement_that_hangs(sweeping: dict[str, Sweeping]) -> None:
    ended = sweeping["statement"].end(within=STARTUP + 15)
    assert ended.name == "Incomplete"
    assert "2 reaped, 1 errored" in ended.message


@pytest.mark.guarantee(
    fault="a receiver that hangs",
    holds="cut at the deadline, still owed, and the run is green",
)
def test_a_receiver_that_hangs(sweeping: dict[str, Sweeping]) -> None:
    ended = sweeping["receiver"].end(within=STARTUP + sender.DEADLINE + 5)
    assert ended.name == "Reaped"
    assert "3 reaped. Notices: 3 notices still owed" in ended.message


@pytest.mark.guarantee(
    fault="a Prefect API that hangs from the report on",
    holds="the report is given up after 15 seconds and the run ends by itself",
)
def test_an_api_that_hangs_when_the_report_is_published(sweeping: dict[str, Sweeping]) -> None:
    """Its state is lost with the API: what the sweep did to the sites is not."""
    sweep = sweeping["artifacts"]
    ended = sweep.end(within=120, leaves=False)
    assert "The report was not published: " in ended.log
    assert query(sweep.url, "SELECT count(*) FROM terminal_failures") == [(3,)]
    assert ended.seconds < PUBLISH_SECONDS + 60


@pytest.mark.guarantee(
    fault="a Prefect API that hangs once the run has ended, when earlier alerts are read",
    holds="its state is set; the rest is given up after 15 seconds, whatever timeouts Prefect has",
    guard="the bound of the hook: without it the run waits for Prefect's own 60 seconds, twice",
)
def test_an_api_that_hangs_when_the_end_is_told(sweeping: dict[str, Sweeping]) -> None:
    ended = sweeping["alerts"].end(within=120, leaves=False)
    assert ended.name == "Reaped"
    assert "Earlier alerts were not read: TimeoutError" in ended.log
    assert "The end of this sweep was not told: TimeoutError" in ended.log
    assert ended.seconds < STARTUP + TELL_SECONDS
