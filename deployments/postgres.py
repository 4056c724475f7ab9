"""A PostgreSQL server of our own in a folder, for `make run` and for the tests.

It listens on a unix socket and on no port, and root may run it, which PostgreSQL itself refuses.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import shlex
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psutil
import psycopg
from psycopg import sql

from deployments.errors import StackError
from deployments.postgres_binaries import find_binaries
from deployments.processes import tail

START_SECONDS = 60
STOP_SECONDS = 30
LONGEST_SOCKET_PATH = 100  # the kernel's limit is 103 on macOS and 107 on Linux


@dataclass(frozen=True)
class LocalPostgres:
    """A running server, reached as its superuser over the unix socket in `socket_dir`."""

    socket_dir: Path
    pid: int
    log: Path

    def url(self, database: str = "postgres", *, scheme: str = "postgresql") -> str:
        """A libpq URL; SQLAlchemy takes it too, with a scheme that names the driver."""
        return f"{scheme}://postgres@/{quote(database)}?host={quote(str(self.socket_dir))}"

    def check(self) -> None:
        """Raises when the server ended although nobody asked it to."""
        with suppress(psutil.NoSuchProcess):
            if psutil.Process(self.pid).status() != psutil.STATUS_ZOMBIE:
                return
        raise StackError(f"PostgreSQL ended.\n{tail(self.log)}")

    def ensure_database(self, name: str) -> None:
        """Creates the database unless an earlier start did."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name])
            if known.fetchone() is None:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))


@contextmanager
def local_postgres(data: Path, *, durable: bool = True) -> Iterator[LocalPostgres]:
    """Runs the server on `data` (made where missing) for the length of the `with` block.

    A server that a killed parent left running on `data` is adopted. `durable=False` trades the
    data's safety in a crash for speed: for tests.
    """
    data = data.resolve()
    data.mkdir(parents=True, exist_ok=True)
    account = _account(data)
    cluster = _Cluster(data, find_binaries(data), account)
    if not (cluster.directory / "PG_VERSION").exists():
        cluster.create()
    try:
        if not cluster.is_running():
            cluster.start(durable=durable)
        yield cluster.connect()
    finally:
        cluster.stop()


@dataclass(frozen=True)
class _Cluster:
    """The commands on one database cluster, each run as `account` where that is set."""

    data: Path
    binaries: Path
    account: pwd.struct_passwd | None

    @property
    def directory(self) -> Path:
        return self.data / "cluster"

    @property
    def log(self) -> Path:
        return self.data / "postgres.log"

    def create(self) -> None:
        """Makes the cluster under another name first, so that a kill leaves no half of one."""
        unfinished = self.data / "cluster.new"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700)
        self._give_to_account(unfinished)
        options = ("--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C")
        self._run("initdb", f"--pgdata={unfinished}", *options)
        unfinished.rename(self.directory)

    @property
    def _pid_file(self) -> Path:
        return self.directory / "postmaster.pid"

    def is_running(self) -> bool:
        """Whether the pid file names this server, and not a later process of that number."""
        try:
            pid = int(self._pid_file.read_text().split()[0])
            return str(self.directory) in psutil.Process(pid).cmdline()
        except (FileNotFoundError, psutil.Error):
            return False

    def start(self, *, durable: bool) -> None:
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self._new_socket_dir()),
            "max_connections": "200",
        }
        if not durable:
            settings |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        options = shlex.join(f"--{name}={value}" for name, value in settings.items())
        self._forget_reused_pid()
        self.log.touch(mode=0o600)
        self._give_to_account(self.log)
        self._run(
            "pg_ctl",
            f"--pgdata={self.directory}",
            f"--log={self.log}",
            f"--timeout={START_SECONDS}",
            f"--options={options}",
            "start",
        )

    def stop(self) -> None:
        if self._pg_ctl("stop", "--mode=fast").returncode != 0 and self.is_running():
            self._pg_ctl("stop", "--mode=immediate")

    def connect(self) -> LocalPostgres:
        """The server as its own file describes it: an adopted one may listen elsewhere."""
        lines = self._pid_file.read_text().splitlines()
        server = LocalPostgres(socket_dir=Path(lines[4]), pid=int(lines[0]), log=self.log)
        try:
            psycopg.connect(server.url(), connect_timeout=10).close()
        except psycopg.OperationalError as error:
            raise StackError(f"PostgreSQL does not answer: {error}\n{tail(self.log)}") from error
        return server

    def _forget_reused_pid(self) -> None:
        """After a power cut PostgreSQL would take any process of its old number for itself."""
        with suppress(FileNotFoundError):
            if psutil.pid_exists(int(self._pid_file.read_text().split()[0])):
                self._pid_file.unlink()

    def _new_socket_dir(self) -> Path:
        """The cluster's own directory, closed to other accounts, where its path is short enough."""
        if len(os.fsencode(self.directory / ".s.PGSQL.5432")) <= LONGEST_SOCKET_PATH:
            return self.directory
        digest = hashlib.sha256(os.fsencode(self.directory)).hexdigest()[:12]
        short = Path(tempfile.gettempdir()) / f"provision-reaper-{digest}"
        short.mkdir(mode=0o700, exist_ok=True)
        self._give_to_account(short)
        owner = self.account.pw_uid if self.account else os.geteuid()
        found = short.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != owner or found.st_mode & 0o077:
            raise StackError(f"{short} belongs to somebody else: remove it, or set TMPDIR.")
        return short

    def _give_to_account(self, path: Path) -> None:
        if self.account:
            os.chown(path, self.account.pw_uid, self.account.pw_gid, follow_symlinks=False)

    def _pg_ctl(self, action: str, *options: str) -> subprocess.CompletedProcess[str]:
        pgdata, timeout = f"--pgdata={self.directory}", f"--timeout={STOP_SECONDS}"
        return self._execute("pg_ctl", pgdata, timeout, *options, action)

    def _run(self, program: str, *arguments: str) -> None:
        done = self._execute(program, *arguments)
        if done.returncode != 0:
            logged = tail(self.log) if self.log.exists() else ""
            raise StackError(f"{program} failed: {done.stdout}\n{logged}")

    def _execute(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        account = self.account
        return subprocess.run(
            [self.binaries / program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            cwd="/",  # the account may not enter ours
            env=os.environ | {"LC_ALL": "C"},
            user=account.pw_uid if account else None,
            group=account.pw_gid if account else None,
            extra_groups=[] if account else None,
        )


def _account(data: Path) -> pwd.struct_passwd | None:
    """PostgreSQL refuses to run as root: `nobody` runs it then, and must be able to reach it."""
    if os.geteuid() != 0:
        return None
    data.chmod(0o711)
    for parent in data.parents:
        if not parent.stat().st_mode & stat.S_IXOTH:
            raise StackError(
                f"Run by root, PostgreSQL uses the account nobody, and {parent} is closed to it: "
                "set PROVISION_DATA_DIR to a folder outside of private ones."
            )
    return pwd.getpwnam("nobody")
