"""Dockerfile and compose.yaml, without a container engine: their own commands, run here.

The build's command runs in an empty environment on the files that the Dockerfile copies, and the
services run with the environment that compose.yaml gives them. Only names that exist in containers
alone are replaced: two folders, two host names, two ports.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from deployments.postgres import LocalPostgres
from deployments.processes import Service, service
from tests.commands import ROOT
from tests.conftest import free_port

DOCKERFILE = re.sub(
    r"\\\n", " ", re.sub(r"^ *#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.M)
)
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
REGISTRIES = re.compile(r"(PIP|UV|SSL_CERT)_\w+|\w+_proxy", re.IGNORECASE)
SITES = """
CREATE TABLE sites (id bigint PRIMARY KEY, domain text, metadata jsonb);
INSERT INTO sites VALUES
  (3000000001, 'stuck.example', '{"provision": {"started_at": "2025-01-15T14:00:00Z"}}');
"""

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


def instructions(keyword: str) -> list[str]:
    return re.findall(rf"^ *{keyword} +(.*)", DOCKERFILE, re.MULTILINE)


class Machine:
    """A folder that stands for the containers: the build's result, and what runs of it."""

    def __init__(self, folder: Path, postgres: LocalPostgres, platform: str) -> None:
        self.folder, self.platform = folder, platform
        self.running = ExitStack()
        self.given = {"PREFECT_PASSWORD": "hunter2", "PREFECT_AUTH": "operator:hunter3"}
        postgres.ensure_database("prefect_of_compose")
        prefect = postgres.url("prefect_of_compose", scheme="postgresql+asyncpg")
        server, health = str(free_port()), str(free_port())
        self.names = {
            "postgresql+asyncpg://prefect:hunter2@postgres/prefect": prefect,
            "//server:4200": f"//127.0.0.1:{server}",
            "127.0.0.1:4200": f"127.0.0.1:{server}",
            "127.0.0.1:8080": f"127.0.0.1:{health}",
            "/opt/provision-reaper": str(folder / "opt"),
        }
        self.ports = {
            "server": {"PREFECT_SERVER_API_PORT": server},
            "worker": {
                "PREFECT_WORKER_WEBSERVER_PORT": health,
                "PREFECT_WORKER_QUERY_SECONDS": "1",  # the health check waits for 30 of them
            },
        }

    def here(self, text: str) -> str:
        """A text of the two files, as it reads on this machine."""
        text = re.sub(r"\$\{(\w+)(?::[?-]([^}]*))?\}", self._value, text).replace("$$", "$")
        for inside, outside in self.names.items():
            text = text.replace(inside, outside)
        return text

    def _value(self, match: re.Match[str]) -> str:
        return self.given.get(match[1], match[2] or "")

    def build(self) -> None:
        source = self.folder / "src"
        for names in instructions("COPY"):
            *copied, _to = names.split()
            for name in copied if not names.startswith("--from") else []:
                if (ROOT / name).is_dir():
                    shutil.copytree(ROOT / name, source / name)
                else:
                    source.mkdir(exist_ok=True)
                    shutil.copy(ROOT / name, source)
        subprocess.run([sys.executable, "-m", "venv", self.folder / "base"], timeout=60, check=True)
        install, *_ = instructions("RUN")
        clients = {name: value for name, value in os.environ.items() if REGISTRIES.fullmatch(name)}
        path = f"{self.folder}/base/bin:{os.defpath}"
        done = subprocess.run(
            ["sh", "-c", self.here(install)],
            cwd=source,
            env={**clients, "UV_SYSTEM_CERTS": "1", "PATH": path, "HOME": str(self.folder)},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    def environment(self, name: str) -> dict[str, str]:
        said = {
            key: self.here(value) for key, value in COMPOSE[name].get("environment", {}).items()
        }
        if "env_file" in COMPOSE[name]:
            said["PROVISION_DATABASE_URL"] = self.platform
        path = {"PATH": f"{self.folder}/opt/bin:{os.defpath}", "HOME": str(self.folder)}
        return path | said | self.ports.get(name, {})

    def command(self, name: str) -> list[str]:
        said = COMPOSE[name].get("command") or yaml.safe_load(instructions("CMD")[0])
        return [self.here(part) for part in said]

    def to_its_end(self, name: str, command: list[str] | None = None) -> str:
        done = subprocess.run(
            command or self.command(name),
            executable=shutil.which((command or self.command(name))[0], path=self.path),
            cwd=self.folder,
            env=self.environment(name),
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @property
    def path(self) -> str:
        return f"{self.folder}/opt/bin:{os.defpath}"

    def start(self, name: str, health: list[str]) -> Service:
        """Start a service, and wait until its own health check says that it is well."""
        program, *arguments = self.command(name)
        log = self.folder / f"{name}.log"
        command = (f"{self.folder}/opt/bin/{program}", *arguments)
        assert not self.is_well(health)
        started = service(name, command, log=log, environment=self.environment(name))
        running = self.running.enter_context(started)
        wait_until(lambda: self.is_well(health), 120, log.read_text)
        return running

    def is_well(self, health: list[str]) -> bool:
        """What a service's own health check says."""
        check = [self.here(part) for part in health]
        check[0] = shutil.which(check[0], path=self.path) or check[0]
        return subprocess.run(check, capture_output=True, timeout=30, check=False).returncode == 0


def wait_until(true: Callable[[], bool], seconds: float, told: Callable[[], str]) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, told()
        time.sleep(0.5)


@pytest.fixture
def machine(tmp_path: Path, postgres: LocalPostgres, empty_database_url: str) -> Iterator[Machine]:
    machine = Machine(tmp_path, postgres, empty_database_url)
    with machine.running:
        yield machine


def reaped(url: str) -> bool:
    with psycopg.connect(url) as connection:
        return bool(connection.execute("SELECT 1 FROM terminal_failures").fetchone())


@pytest.mark.long
def test_what_the_container_files_say_builds_starts_and_sweeps(machine: Machine) -> None:
    with psycopg.connect(machine.platform) as connection:
        connection.execute(SITES)
    machine.build()
    assert not {"pip", "uv", "hatchling"} & set(os.listdir(machine.folder / "opt/bin"))
    machine.to_its_end("migrate")
    server = machine.start("server", COMPOSE["server"]["healthcheck"]["test"][1:])
    machine.to_its_end("deploy")
    machine.to_its_end("deploy")
    check = yaml.safe_load(re.sub(r".* CMD ", "", instructions("HEALTHCHECK")[0]))
    machine.start("worker", check)
    run = ["prefect", "deployment", "run", "reap-stuck-provisions/every-5-minutes"]
    machine.to_its_end("worker", run)
    log = machine.folder / "worker.log"
    wait_until(lambda: reaped(machine.platform), 120, log.read_text)
    assert machine.is_well(check)
    server.process.terminate()
    wait_until(lambda: not machine.is_well(check), 120, log.read_text)


def test_each_service_is_restarted_and_watched() -> None:
    for name, said in COMPOSE.items():
        ends_by_itself = said.get("healthcheck") == {"disable": True}
        assert said["restart"] == ("on-failure:5" if ends_by_itself else "unless-stopped")
        for other, awaited in said.get("depends_on", {}).items():
            once = COMPOSE[other].get("healthcheck") == {"disable": True}
            wanted = "service_completed_successfully" if once else "service_healthy"
            assert awaited == {"condition": wanted}, (name, other)
