"""The program as operators have it: a real Prefect server with prefect.yaml, and a real worker."""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import psutil
import psycopg
import pytest
from prefect.client.orchestration import get_client
from sqlalchemy.ext.asyncio import AsyncEngine

from deployments.postgres import LocalPostgres
from deployments.processes import MARK, Service, service
from deployments.sweeps import DEPLOYMENT, WORK_POOL, ensure_work_pool
from provisioning.database import database
from tests.sites import Sites

ROOT = Path(__file__).parent.parent
FINAL = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")
DATABASE = "production"


@dataclass
class Production:
    """A server and a worker, asked by the same HTTP calls that the UI makes."""

    api: str
    database_url: str
    folder: Path
    running: ExitStack = field(default_factory=ExitStack)
    worker: Service | None = None

    def __post_init__(self) -> None:
        self.http = httpx.Client(base_url=self.api, timeout=30)

    @property
    def ui(self) -> str:
        """Where the UI is."""
        return self.api.removesuffix("/api")

    @property
    def deployment(self) -> dict[str, Any]:
        """The sweep's deployment, as the server has it."""
        return self.get(f"/deployments/name/{DEPLOYMENT}")

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a worker, and of an operator's shell."""
        return os.environ | {
            "PREFECT_API_URL": self.api,
            "PROVISION_DATABASE_URL": self.database_url,
            "PREFECT_RESULTS_PERSIST_BY_DEFAULT": "true",
            "PREFECT_WORKER_QUERY_SECONDS": "1",
        }

    def shell(self, *prefect: str) -> str:
        """Run a `prefect` command as an operator does; what it printed."""
        done = subprocess.run(
            [sys.executable, "-m", "prefect", "--no-prompt", *prefect],
            cwd=ROOT,
            env=self.environment | {"PREFECT_HOME": str(self.folder / "home")},
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start_worker(self) -> None:
        """Start the one worker, and wait until the server knows it."""
        command = ("worker", "start", "--pool", WORK_POOL, "--type", "process")
        self.worker = self.running.enter_context(
            service(
                "worker",
                (sys.executable, "-m", "prefect", *command),
                log=self.folder / f"worker-{time.monotonic_ns()}.log",
                environment=self.environment,
            )
        )
        deadline = time.monotonic() + 120
        while "Worker" not in self.worker.log.read_text():
            self.worker.check()
            assert time.monotonic() < deadline, self.worker.log.read_text()
            time.sleep(0.1)

    def kill_worker(self) -> None:
        """As a machine that is gone: the worker and each run that it had started, kill -9."""
        assert self.worker
        ours = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK, "") == str(self.worker.log):
                    ours.append(process)
            except psutil.Error:
                continue
        for process in ours:
            process.kill()
        self.worker.process.wait()
        self.running.close()

    def get(self, path: str) -> dict[str, Any]:
        """One object of the API."""
        answer = self.http.get(path)
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
        return found

    def post(self, path: str, body: Any) -> Any:
        """What the API answers to a POST."""
        answer = self.http.post(path, json=body)
        answer.raise_for_status()
        return answer.json()

    def custom_run(self, **parameters: Any) -> str:
        """The UI's Custom run: the form holds the deployment's parameters and what was changed."""
        deployment = self.deployment
        run = self.post(
            f"/deployments/{deployment['id']}/create_flow_run",
            {
                "parameters": deployment["parameters"] | parameters,
                "enforce_parameter_schema": True,
                "state": {"type": "SCHEDULED", "message": "Run from the UI"},
            },
        )
        return str(run["id"])

    def copy_to_new_run(self, run_id: str) -> str:
        """The UI's Copy to new run: the same form, filled with the run's own parameters."""
        return self.custom_run(**self.get(f"/flow_runs/{run_id}")["parameters"])

    def retry(self, run_id: str) -> None:
        """The UI's Retry, as its script sends it."""
        state = {"type": "SCHEDULED", "name": "AwaitingRetry", "message": "Retry from the UI"}
        self.post(f"/flow_runs/{run_id}/set_state", {"state": state, "force": True})

    async def ended(self, run_id: str, seconds: float = 120) -> dict[str, Any]:
        """The run once it has ended."""
        deadline = time.monotonic() + seconds
        while (run := self.get(f"/flow_runs/{run_id}"))["state_type"] not in FINAL:
            assert time.monotonic() < deadline, f"{run['name']} is {run['state_name']}"
            await asyncio.sleep(0.2)
        print(run["name"], run["state_name"], run["state"]["message"])  # shown where a test fails
        return run

    async def sweep(self, **parameters: Any) -> dict[str, Any]:
        """A custom run, once it has ended."""
        return await self.ended(self.custom_run(**parameters))

    def events(self, event: str, resource: str) -> list[dict[str, Any]]:
        """Such events as the server has stored, which it does every few seconds."""
        wanted = {"event": {"name": [event]}, "resource": {"id": [resource]}}
        found: list[dict[str, Any]] = self.post("/events/filter", {"filter": wanted})["events"]
        return found

    @contextmanager
    def scheduled_in(self, seconds: float) -> Iterator[str]:
        """A schedule whose first run is due then; the run's id.

        The next one is a minute later, so that no second sweep works on the same sites.
        """
        path = f"/deployments/{self.deployment['id']}/schedules"
        due = datetime.now(UTC) + timedelta(seconds=seconds)
        interval = {"interval": 60, "anchor_date": due.isoformat(), "timezone": "UTC"}
        (made,) = self.post(path, [{"active": True, "schedule": interval}])
        self.post(f"/deployments/{self.deployment['id']}/schedule", {})  # not in a minute, but now
        query = {
            "flow_runs": {"expected_start_time": {"after_": due.isoformat()}},
            "deployments": {"id": {"any_": [self.deployment["id"]]}},
            "sort": "EXPECTED_START_TIME_ASC",
        }
        try:
            first, *_ = self.post("/flow_runs/filter", query)
            yield str(first["id"])
        finally:
            self.http.delete(f"{path}/{made['id']}").raise_for_status()

    def pause_schedules(self) -> None:
        """No run but those that a test starts."""
        deployment = self.deployment
        for schedule in deployment["schedules"]:
            path = f"/deployments/{deployment['id']}/schedules/{schedule['id']}"
            self.http.patch(path, json={"active": False}).raise_for_status()


async def until(true: Callable[[], bool], seconds: float) -> None:
    """Wait for something that comes by itself."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.2)


@contextmanager
def run_production(postgres: LocalPostgres, api: str, template: str) -> Iterator[Production]:
    """Deploys prefect.yaml to the server and starts the worker, for the `with` block."""
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {DATABASE} TEMPLATE {template} STRATEGY file_copy")
    with (
        tempfile.TemporaryDirectory(prefix="production-", ignore_cleanup_errors=True) as folder,
        ExitStack() as running,
    ):
        production = Production(api, postgres.url(DATABASE), Path(folder), running)
        with get_client(sync_client=True) as client:
            ensure_work_pool(client)
        production.shell("deploy", "--all")
        production.pause_schedules()
        production.start_worker()
        yield production


@pytest.fixture(scope="session")
def production(
    postgres: LocalPostgres, prefect_api: str, migrated_template: str
) -> Iterator[Production]:
    """One server and one worker for all tests that drive the whole program."""
    with run_production(postgres, prefect_api, migrated_template) as production:
        yield production


@pytest.fixture
async def platform(production: Production) -> AsyncIterator[Sites]:
    """The table of sites that the worker sweeps, empty at first."""
    async with database(production.database_url) as engine:
        yield await _emptied(engine)


async def _emptied(engine: AsyncEngine) -> Sites:
    sites = Sites(engine)
    await sites.run(
        "TRUNCATE sites, terminal_failures, notices, sweep_refusals, sweep_ends CASCADE"
    )
    return sites
