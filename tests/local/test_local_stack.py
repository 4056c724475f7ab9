"""`make run` itself: what it prints, what it refuses, what it leaves behind, what it keeps."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import psycopg
import pytest
import yaml
from psycopg.rows import TupleRow

from deployments.processes import MARK
from deployments.samples import to_try
from deployments.sweeps import DEPLOYMENT
from tests.sites import Sites

ROOT = Path(__file__).parents[2]
CHAIN = "provision-site/on-demand"
READY = "Ctrl-C stops everything"


class Stack:
    """One `python -m deployments.local`, and what it prints."""

    def __init__(self, data: Path, port: int, *options: str, **environment: str) -> None:
        self.output = data.with_name(f"output-{time.monotonic_ns()}")
        self.environment = os.environ | {
            "PROVISION_DATA_DIR": str(data),
            "PROVISION_UI_PORT": str(port),
            **environment,
        }
        with self.output.open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "deployments.local", *options],
                cwd=ROOT,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def wait_for(self, text: str, seconds: float) -> str:
        deadline = time.monotonic() + seconds
        while text not in (told := self.output.read_text()):
            assert self.process.poll() is None, told
            assert time.monotonic() < deadline, told
            time.sleep(0.2)
        return told

    def wait_for_end(self, seconds: float = 60) -> tuple[int, str]:
        return self.process.wait(timeout=seconds), self.output.read_text()


@pytest.fixture
def data(folder: Path) -> Iterator[Path]:
    """A data folder; whatever runs on it is ended, also when the test fails."""
    path = folder / "data"
    yield path
    for process in alive_on(path):
        process.kill()


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
        return number


def alive_on(data: Path) -> list[psutil.Process]:
    """Every process that works on the folder: stacks, services, flow runs, PostgreSQL."""
    found = []
    for process in psutil.process_iter():
        try:
            named = (process.environ().get(MARK, ""), *process.cmdline())
            mine = process.environ().get("PROVISION_DATA_DIR") == str(data)
        except psutil.Error:
            continue
        if process.pid != os.getpid() and (mine or any(str(data) in word for word in named)):
            found.append(process)
    return found


def url_of(data: Path, database: str) -> str:
    return f"postgresql://postgres@/{database}?host={data / 'postgres' / 'cluster'}"


def query(data: Path, database: str, statement: str) -> list[TupleRow]:
    with psycopg.connect(url_of(data, database)) as connection:
        return connection.execute(statement.encode()).fetchall()


def deploy_again(stack: Stack, api: str) -> dict[str, Any]:
    """Deploys as an operator does; the deployment as the server has it then."""
    subprocess.run(
        [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all"],
        cwd=ROOT,
        env=stack.environment
        | {"PREFECT_API_URL": api, "PREFECT_HOME": str(stack.output.with_name("home"))},
        check=True,
        capture_output=True,
        timeout=60,
    )
    found: dict[str, Any] = httpx.get(f"{api}/deployments/name/{DEPLOYMENT}").json()
    return found


def schedules_active(api: str) -> list[bool]:
    deployment = httpx.get(f"{api}/deployments/name/{DEPLOYMENT}").json()
    return [schedule["active"] for schedule in deployment["schedules"]]


def outage(stack: Stack) -> str:
    """What `make outage` prints, started with the data folder and nothing else."""
    environment = stack.environment.copy()
    del environment["PROVISION_UI_PORT"]
    done = subprocess.run(
        [sys.executable, "-m", "deployments.outage"],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def custom_run(api: str, deployment: str, **parameters: Any) -> str:
    """What the UI's Custom run starts; the run's id."""
    found = httpx.get(f"{api}/deployments/name/{deployment}").json()
    made = httpx.post(
        f"{api}/deployments/{found['id']}/create_flow_run",
        json={"parameters": found["parameters"] | parameters, "enforce_parameter_schema": True},
    )
    return str(made.raise_for_status().json()["id"])


def state_at_the_end(api: str, run_id: str) -> str:
    deadline = time.monotonic() + 120
    while (run := httpx.get(f"{api}/flow_runs/{run_id}").json())["end_time"] is None:
        assert time.monotonic() < deadline, run
        time.sleep(0.2)
    return str(run["state_name"])


@pytest.mark.e2e
@pytest.mark.timeout(600)
def test_starts_sweeps_and_stops(data: Path, port: int) -> None:
    stack = Stack(data, port)
    told = stack.wait_for(READY, 240)
    assert "The first sweep ended Reaped" in told
    assert "hatmaker.example.com" in told
    assert f"http://127.0.0.1:{port}" in told
    assert "tailor.example.com" not in told, "it is in flight and young"
    stack.process.send_signal(signal.SIGINT)
    assert stack.wait_for_end()[0] == 0
    assert not alive_on(data)


@pytest.mark.long
@pytest.mark.e2e
@pytest.mark.timeout(600)
def test_survives_a_kill_a_second_start_a_new_deploy_and_an_outage(data: Path, port: int) -> None:
    first = Stack(data, port)
    assert "The first sweep ended Reaped" in first.wait_for(READY, 240)

    assert "Another `make run` uses" in Stack(data, port).wait_for_end()[1]
    status, complaint = Stack(data.with_name("elsewhere"), port).wait_for_end()
    assert status == 1
    assert f"Port {port} is not to be had" in complaint
    assert "Starting" not in complaint

    api = f"http://127.0.0.1:{port}/api"
    deployment = httpx.get(f"{api}/deployments/name/{DEPLOYMENT}").json()
    schedule = deployment["schedules"][0]
    assert schedule["active"]
    assert deployment["concurrency_limit"] is None
    pause = {"active": False}
    httpx.patch(
        f"{api}/deployments/{deployment['id']}/schedules/{schedule['id']}", json=pause
    ).raise_for_status()
    again = deploy_again(first, api)
    assert again["id"] == deployment["id"]
    assert [s["slug"] for s in again["schedules"]] == [schedule["slug"]]
    assert again["schedules"][0]["schedule"] == schedule["schedule"]
    assert not again["schedules"][0]["active"], "a redeploy must not wake a paused schedule"

    to_live, to_fail = to_try(url_of(data, "provision"))
    runs = [custom_run(api, CHAIN, site_id=site_id) for site_id in (to_live, to_fail)]
    assert [state_at_the_end(api, run) for run in runs] == ["Live", "Failed"]

    sites = query(data, "provision", "SELECT id, metadata FROM sites ORDER BY id")
    first.process.kill()
    first.process.wait()
    assert alive_on(data), "a killed parent leaves its services behind"

    second = Stack(data, port)
    assert "The first sweep ended Clean" in second.wait_for(READY, 240)
    assert query(data, "provision", "SELECT id, metadata FROM sites ORDER BY id") == sites
    told = outage(second)
    assert "The sweep ended Refused" in told
    assert "30 of 30 stopped at step dns" in " ".join(told.split())
    (refused,) = re.findall(rf"{port}/v2/runs/flow-run/([0-9a-f-]{{36}})", told)
    assert f"--param approve_refusal={refused}" in told
    automations = httpx.post(f"{api}/automations/filter", json={}).json()
    declared = yaml.safe_load((ROOT / "deployments/automations.yaml").read_text())["automations"]
    assert {it["name"] for it in automations} == {it["name"] for it in declared}

    states = query(data, "prefect", "SELECT state_name FROM flow_run")
    assert {"Reaped", "Clean"} <= {name for (name,) in states}
    second.process.send_signal(signal.SIGINT)
    assert second.wait_for_end()[0] == 0
    assert not alive_on(data)


@pytest.mark.parametrize(
    ("environment", "complaint"),
    [
        ({"PROVISION_UI_PORT": "http"}, "PROVISION_UI_PORT is a port"),
        ({"PROVISION_DATABASE_URL": "mysql://x:s3cret@y/z"}, "no PostgreSQL URL"),
        ({"PROVISION_DATABASE_URL": "postgresql://x:s3cret@127.0.0.1:1/z"}, "z on 127.0.0.1"),
    ],
)
def test_says_what_is_wrong_before_it_starts_anything(
    data: Path, port: int, environment: dict[str, str], complaint: str
) -> None:
    status, told = Stack(data, port, **environment).wait_for_end()
    assert status == 1
    assert complaint in told
    assert "s3cret" not in told
    assert "Traceback" not in told
    assert not alive_on(data)


@pytest.mark.long
@pytest.mark.e2e
@pytest.mark.timeout(600)
async def test_a_database_of_ones_own_is_rehearsed_first(
    data: Path, port: int, database_url: str, sites: Sites
) -> None:
    await sites.add_many(3)
    elsewhere = {"PREFECT_API_URL": "http://127.0.0.1:9/api"}
    stack = Stack(data, port, PROVISION_DATABASE_URL=database_url, **elsewhere)
    told = stack.wait_for(READY, 240)
    assert "PREFECT_API_URL is set and not used" in told
    assert "The first sweep ended Rehearsed" in told
    assert "Nothing was changed" in told
    api = f"http://127.0.0.1:{port}/api"
    assert schedules_active(api) == [False]
    assert await sites.failed() == []
    assert len(await sites.rows("SELECT 1 FROM sites")) == 3, "no sample joins them"
    stack.process.send_signal(signal.SIGINT)
    assert stack.wait_for_end()[0] == 0

    told = Stack(data, port, "--reap", PROVISION_DATABASE_URL=database_url).wait_for(READY, 240)
    assert schedules_active(api) == [True]
    assert "The first sweep ended" in told
    assert len(await sites.failed()) == 3, "by this sweep, or by one of the schedule before it"


def test_a_server_that_does_not_answer_is_named(data: Path, port: int, database_url: str) -> None:
    server = {"PREFECT_API_URL": f"http://127.0.0.1:{port}/api"}
    stack = Stack(data, port, "--use-prefect-server", PROVISION_DATABASE_URL=database_url, **server)
    status, told = stack.wait_for_end()
    assert status == 1
    assert f"The Prefect server http://127.0.0.1:{port}/api/ did not answer" in told
    assert "Migrating" not in told
    assert not alive_on(data)
