"""Shared by all tests: one real PostgreSQL server, and a migrated database of its own for each."""

import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests import second_table
from tests.commands import migrate

# Before Prefect is imported, and reads them: nothing of the developer's own profile, no network.
_home = tempfile.TemporaryDirectory(prefix="reaper-prefect-", ignore_cleanup_errors=True)
os.environ |= {
    "DO_NOT_TRACK": "1",
    "PREFECT_HOME": _home.name,
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
}
for name in [name for name in os.environ if name.startswith("PROVISION_")] + ["PREFECT_API_URL"]:
    os.environ.pop(name, None)
if second_table.chosen():
    os.environ |= second_table.NAMES

import httpx
import psycopg
import pytest
from prefect.events.worker import EventsWorker
from prefect.logging.handlers import APILogWorker
from prefect.settings import PREFECT_API_URL, temporary_settings
from sqlalchemy.ext.asyncio import AsyncEngine
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

from deployments.postgres import LocalPostgres, local_postgres
from deployments.processes import Service, service
from provisioning.database import database
from provisioning.settings import settings
from tests.production import platform, production  # noqa: F401 - fixtures for all folders
from tests.sites import PLATFORM_TABLE, Sites

MEMORY, ROOM = Path("/dev/shm"), 8 << 30
"""Where each test's copy of a database takes 8 ms and not 200, and the room for four servers."""

_numbers = count(1)


SHARING = ("tests/automations/", "tests/browser/", "tests/operations/", "tests/faults/test_killed")
"""The tests that drive the whole program, on a server and a worker that one session starts once."""


class FilesScheduling(LoadFileScheduling):  # type: ignore[misc]
    """A process takes whole files, and one of them all that share the running program."""

    def _split_scope(self, nodeid: str) -> str:
        return "production" if nodeid.startswith(SHARING) else super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """Share where sharing is shorter: the long ones take longer than a second server does."""
    return None if _long_too(config) else FilesScheduling(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is long, unless it is asked for by name. Begin with the files that wait most.

    What runs through servers and workers waits for them, and the others fill its pauses.
    """
    waiting = {item.path for item in items if item.get_closest_marker("e2e")}
    items.sort(key=lambda item: item.path not in waiting)
    if not _long_too(config):
        left_out = [item for item in items if item.get_closest_marker("long")]
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)


def _long_too(config: pytest.Config) -> bool:
    return "long" in config.option.markexpr


@pytest.fixture(scope="session")
def postgres() -> Iterator[LocalPostgres]:
    """A server for the length of the session, on a unix socket."""
    where = MEMORY if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM else None
    with (
        tempfile.TemporaryDirectory("", "reaper-", where, ignore_cleanup_errors=True) as folder,
        local_postgres(Path(folder), durable=False) as server,
    ):
        yield server


def adopt(url: str) -> None:
    """An empty database as a platform has it, and then our migrations."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(second_table.DDL if second_table.chosen() else PLATFORM_TABLE)
    migrate(url)


@pytest.fixture(scope="session")
def migrated_template(postgres: LocalPostgres) -> str:
    """The name of a migrated database, from which each test's own is copied."""
    postgres.ensure_database("template_migrated")
    adopt(postgres.url("template_migrated"))
    return "template_migrated"


@pytest.fixture
def empty_database_url(postgres: LocalPostgres) -> Iterator[str]:
    """The URL of a database with nothing in it."""
    yield from _own_database(postgres, "template0")


@pytest.fixture
def database_url(postgres: LocalPostgres, migrated_template: str) -> Iterator[str]:
    """The URL of a migrated database without sites."""
    yield from _own_database(postgres, migrated_template)


@pytest.fixture
def platform_url(database_url: str) -> str:
    """The same database for the platform's own connections, which know its table by its name."""
    path = quote(f"-c search_path={second_table.SEARCH_PATH.replace(' ', chr(92) + ' ')}")
    return f"{database_url}&options={path}" if second_table.chosen() else database_url


def _own_database(postgres: LocalPostgres, template: str) -> Iterator[str]:
    name = f"test_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
    yield postgres.url(name)
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
async def engine(database_url: str) -> AsyncIterator[AsyncEngine]:
    """The program's own engine on the test's database."""
    async with database(database_url) as engine:
        yield engine


@pytest.fixture
async def sites(engine: AsyncEngine) -> Sites:
    """The platform's table, and what the platform does to it."""
    return Sites(engine)


@pytest.fixture
def worker_environment(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[pytest.MonkeyPatch]:
    """The environment of a worker that sweeps the test's database."""
    monkeypatch.setenv("PROVISION_DATABASE_URL", database_url)
    settings.cache_clear()
    yield monkeypatch
    settings.cache_clear()


@pytest.fixture(scope="session")
def prefect_api(postgres: LocalPostgres) -> Iterator[str]:
    """A real Prefect server on the same PostgreSQL; this process talks to it from then on."""
    with prefect_server(postgres) as url:
        yield url


@contextmanager
def prefect_server(postgres: LocalPostgres) -> Iterator[str]:
    """The server, for the tests and for the benchmarks. Its API's address."""
    port, log = free_port(), Path(_home.name) / "server.log"
    url = f"http://127.0.0.1:{port}/api"
    with (
        server_process(postgres, "prefect", port, log) as server,
        temporary_settings({PREFECT_API_URL: url}),
    ):
        until_healthy(server, url)
        yield url
        # While the server is still there: at exit they would be tried for a minute.
        APILogWorker.drain_all(timeout=3)
        EventsWorker.drain_all(timeout=3)  # some are for a server that a test has killed


@contextmanager
def server_process(
    postgres: LocalPostgres, database: str, port: int, log: Path
) -> Iterator[Service]:
    """A Prefect server on that port, with a database of that name."""
    postgres.ensure_database(database)
    with service(
        "Prefect server",
        (sys.executable, "-m", "prefect", "server", "start", "--port", str(port)),
        log=log,
        environment=os.environ
        | {
            # The UI's scripts and the links in alerts go there.
            "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
            "PREFECT_SERVER_DATABASE_CONNECTION_URL": postgres.url(
                database, scheme="postgresql+asyncpg"
            ),
        },
    ) as server:
        yield server


def until_healthy(server: Service, url: str) -> None:
    """Wait until a Prefect server answers."""
    deadline = time.monotonic() + 120
    while not _healthy(url):
        server.check()
        assert time.monotonic() < deadline, "the Prefect server did not start"
        time.sleep(0.25)


def free_port() -> int:
    """A port on loopback that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _healthy(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=5).is_success
    except httpx.HTTPError:
        return False
