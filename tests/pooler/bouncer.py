"""A real PgBouncer before the tests' server, as packages ship it, in the mode that a test wants."""

import os
import pwd
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg

from deployments.postgres import LocalPostgres
from tests.conftest import free_port

INSTALL = "install the package pgbouncer, or name a binary in PGBOUNCER"

SETTINGS = """\
[databases]
* = host={sockets}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir = {folder}
auth_type = trust
auth_file = {folder}/users.txt
admin_users = postgres
pool_mode = {mode}
logfile = {folder}/pgbouncer.log
{more}
"""


@dataclass(frozen=True)
class Bouncer:
    """A running pooler."""

    port: int
    folder: Path

    @property
    def log(self) -> Path:
        """What it says."""
        return self.folder / "pgbouncer.log"

    def url(self, database: str, user: str = "postgres") -> str:
        """The address of a database through it."""
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def through(self, url: str) -> str:
        """The same database, through the pooler."""
        return self.url(_name(url))

    def beside(self, url: str) -> str:
        """The same, over its socket in the file system, as the server itself is reached."""
        return f"postgresql://postgres@/{_name(url)}?host={self.folder}&port={self.port}"


def _name(url: str) -> str:
    """The database in the URL of a local server."""
    return url.split("@/")[1].split("?", maxsplit=1)[0]


def find_binary() -> str:
    """The pooler that `PGBOUNCER` names, else the installed one."""
    binary = os.environ.get("PGBOUNCER") or shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
    assert Path(binary).exists(), INSTALL
    return binary


def version() -> tuple[int, int]:
    """Major and minor version of that pooler."""
    told = subprocess.run([find_binary(), "--version"], capture_output=True, text=True, check=True)
    found = re.search(r"PgBouncer (\d+)\.(\d+)", told.stdout)
    assert found, told.stdout
    return int(found[1]), int(found[2])


@contextmanager
def bouncer(postgres: LocalPostgres, mode: str, *more: str) -> Iterator[Bouncer]:
    """Runs one for the `with` block, with further lines of its settings."""
    binary = find_binary()
    account = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="bouncer-", ignore_cleanup_errors=True) as name:
        folder, port = Path(name), free_port()
        (folder / "users.txt").write_text('"postgres" ""\n"reaper" ""\n')
        (folder / "settings.ini").write_text(
            SETTINGS.format(
                sockets=postgres.socket_dir,
                port=port,
                folder=folder,
                mode=mode,
                more="\n".join(more),
            )
        )
        if account:
            shutil.chown(folder, account.pw_uid)
        running = subprocess.Popen(
            [binary, "--quiet", folder / "settings.ini"],
            user=account.pw_uid if account else None,
            group=account.pw_gid if account else None,
            extra_groups=[] if account else None,
        )
        try:
            _wait(port, running)
            yield Bouncer(port, folder)
        finally:
            running.terminate()
            with suppress(subprocess.TimeoutExpired):
                running.wait(10)
            running.kill()
            running.wait()


def _wait(port: int, running: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        assert running.poll() is None, "PgBouncer ended"
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise AssertionError("PgBouncer does not listen")


def left_on_the_servers(postgres: LocalPostgres, database: str) -> list[str]:
    """The locks that sessions hold although they run nothing."""
    with psycopg.connect(postgres.url(database), autocommit=True) as connection:
        return [
            row[0]
            for row in connection.execute(
                "SELECT DISTINCT a.state || ' ' || l.locktype FROM pg_stat_activity AS a"
                " JOIN pg_locks AS l USING (pid)"
                " WHERE a.datname = current_database() AND a.state LIKE 'idle%'"
            )
        ]
