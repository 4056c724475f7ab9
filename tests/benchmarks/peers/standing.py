"""What must run all day for each peer, and how it is started: in the way its own manual says."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml
from prefect.client.orchestration import get_client
from prefect.settings import PREFECT_API_URL, temporary_settings

from deployments import automations, sweeps
from deployments.postgres import LocalPostgres
from deployments.processes import Service, run_command, service
from tests.benchmarks.peers import family
from tests.commands import ROOT
from tests.conftest import free_port, server_process, until_healthy

PROGRAMS = Path(__file__).parent / "programs"
MODULES = "tests.benchmarks.peers.programs"
EVERY = 300
"""Seconds between two sweeps of one peer: those of `prefect.yaml`."""

SETUP_SECONDS = 300


@dataclass(frozen=True)
class Place:
    """Where one peer runs.

    Attributes:
        commands: the folder of its environment's commands.
        folder: for its logs and files.
        name: what its two databases on the server begin with.
        minute: the minute of each five at which its sweep is due, 0 to 4.
    """

    postgres: LocalPostgres
    commands: Path
    folder: Path
    name: str
    minute: int

    @property
    def databases(self) -> list[str]:
        """The names of the one with its 100,000 sites, and of the one with its own tables."""
        return [f"peer_{self.name}_sites", f"peer_{self.name}_own"]

    @property
    def sites(self) -> str:
        """The URL of its sites."""
        return self.postgres.url(self.databases[0])

    def start(
        self, running: ExitStack, name: str, *command: str, environment: Mapping[str, str]
    ) -> Service:
        """Start one of its processes, for the length of `running`."""
        started = service(
            name,
            (self.commands / command[0], *command[1:]),
            log=self.folder / f"{name}.log",
            environment={**self.environment, **environment},
        )
        entered = running.enter_context(started)
        running.callback(family.end, entered.process.pid)
        return entered

    def run(self, *command: str, environment: Mapping[str, str]) -> None:
        """Run one of its commands that ends by itself."""
        run_command(
            (self.commands / command[0], *command[1:]),
            folder=ROOT,
            log=self.folder / "setup.log",
            environment={**self.environment, **environment},
            timeout=SETUP_SECONDS,
        )

    def metadata(self, scheme: str = "postgresql") -> str:
        """The URL of the database with its own tables, which is made where it is missing."""
        self.postgres.ensure_database(self.databases[1])
        return self.postgres.url(self.databases[1], scheme=scheme)

    @property
    def environment(self) -> dict[str, str]:
        """What each of its processes finds."""
        return os.environ | {
            "PATH": f"{self.commands}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "SITES_URL": self.sites,
            "SCHEDULE": f"{self.minute}-59/5 * * * *",
        }


@contextmanager
def ours(place: Place) -> Iterator[list[Service]]:
    """A Prefect server and a worker, with our deployment and our automations."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/api"
    with ExitStack() as running:
        log = place.folder / "server.log"
        server = server_process(place.postgres, place.databases[1], port, log)
        started = [running.enter_context(server)]
        running.enter_context(temporary_settings({PREFECT_API_URL: url}))
        until_healthy(started[0], url)
        client = running.enter_context(get_client(sync_client=True))
        sweeps.ensure_work_pool(client)
        environment = {"PREFECT_API_URL": url, "PROVISION_DATABASE_URL": place.sites}
        prefect = (Path(sys.executable).name, "-m", "prefect")
        place.run(*prefect, "--no-prompt", "deploy", "--all", environment=environment)
        automations.apply(client, automations.load(), None)
        worker = (*prefect, "worker", "start", "--pool", sweeps.WORK_POOL, "--type", "process")
        started.append(place.start(running, "worker", *worker, environment=environment))
        yield started


CRON = """
while :; do
    sleep "$(date +%s.%N | awk '{ print 300 - ($1 - 60 * '"$MINUTE"') % 300 }')"
    python -m tests.benchmarks.peers.programs.one_sweep
done
"""
"""What stands for cron: a shell that sleeps until the next due time and starts the script."""


@contextmanager
def script(place: Place) -> Iterator[list[Service]]:
    """A shell in cron's place."""
    with service(
        "cron",
        ("sh", "-c", CRON),
        log=place.folder / "cron.log",
        environment=place.environment | {"MINUTE": str(place.minute)},
    ) as cron:
        yield [cron]


@contextmanager
def procrastinate(place: Place) -> Iterator[list[Service]]:
    """A worker, which also defers the periodic task."""
    environment = {"QUEUE_URL": place.metadata()}
    app = ("procrastinate", "--verbose", f"--app={MODULES}.procrastinate_task.app")
    with ExitStack() as running:
        place.run(*app, "schema", "--apply", environment=environment)
        yield [place.start(running, "worker", *app, "worker", environment=environment)]


@contextmanager
def dagster(place: Place) -> Iterator[list[Service]]:
    """A code server, the daemon that starts runs, and the web server that shows them."""
    home, port = place.folder / "home", free_port()
    home.mkdir()
    storage = {"postgres": {"postgres_url": place.metadata()}}
    (home / "dagster.yaml").write_text(
        yaml.safe_dump({"storage": storage, "telemetry": {"enabled": False}})
    )
    (home / "workspace.yaml").write_text(
        yaml.safe_dump({"load_from": [{"grpc_server": {"host": "127.0.0.1", "port": port}}]})
    )
    environment = {"DAGSTER_HOME": str(home)}
    workspace = ("-w", str(home / "workspace.yaml"))
    parts = {
        "code server": (
            *("dagster", "code-server", "start", "--host", "127.0.0.1", "--port", str(port)),
            *("--module-name", f"{MODULES}.dagster_job"),
        ),
        "daemon": ("dagster-daemon", "run", *workspace),
        "web server": ("dagster-webserver", "--port", str(free_port()), *workspace),
    }
    with ExitStack() as running:
        place.run("dagster", "instance", "migrate", environment=environment)
        yield [
            place.start(running, name, *command, environment=environment)
            for name, command in parts.items()
        ]


@contextmanager
def airflow(place: Place) -> Iterator[list[Service]]:
    """The API server, the scheduler with its LocalExecutor, and the processor of DAG files."""
    port = str(free_port())
    settings = {
        "CORE__EXECUTOR": "LocalExecutor",
        "CORE__LOAD_EXAMPLES": "False",
        "CORE__DAGS_FOLDER": str(PROGRAMS),
        "CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
        "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "DATABASE__SQL_ALCHEMY_CONN": place.metadata("postgresql+psycopg2"),
        "API__PORT": port,
        "API__SECRET_KEY": "of-this-benchmark",
        "API_AUTH__JWT_SECRET": "of-this-benchmark-and-long-enough-for-it",
        "LOGGING__WORKER_LOG_SERVER_PORT": str(free_port()),
    }
    environment = {f"AIRFLOW__{name}": value for name, value in settings.items()}
    environment["AIRFLOW_HOME"] = str(place.folder / "home")
    with ExitStack() as running:
        place.run("airflow", "db", "migrate", environment=environment)
        yield [
            place.start(running, part, "airflow", part, environment=environment)
            for part in ("api-server", "scheduler", "dag-processor")
        ]
