"""What the doctor says of a Prefect server: a small one of the test's, and the real one."""

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from deployments.postgres import LocalPostgres
from tests.cli.conftest import Tool
from tests.conftest import free_port, server_process, until_healthy


def ago(minutes: int) -> str:
    return (datetime.now(UTC) - timedelta(minutes=minutes)).isoformat()


class Stub(ThreadingHTTPServer):
    """Answers as a Prefect server whose sweeps are in order, but for what a test changes."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.skew = timedelta(0)
        self.password: str | None = None
        self.run = {"end_time": ago(2), "state_name": "Clean", "state_type": "COMPLETED"}
        self.deployment: dict[str, Any] = {
            "id": "d",
            "name": "every-5-minutes",
            "paused": False,
            "schedules": [{"active": True}],
            "work_pool_name": "the pool",
            "work_queue_name": "default",
        }
        self.answers: dict[str, Any] = {
            "/admin/version": "3.9.1",
            "/deployments/filter": [self.deployment],
            "/work_pools/the%20pool": {"is_paused": False},
            "/work_pools/the%20pool/queues/default": {"is_paused": False},
            "/work_pools/the%20pool/workers/filter": [{"status": "ONLINE"}],
            "/flow_runs/filter": [self.run],
            "/automations/filter": [{"name": "provisioning: switch", "enabled": True}],
        }


class Handler(BaseHTTPRequestHandler):
    server: Stub

    def do_GET(self) -> None:
        path = self.path.removeprefix("/api")
        code = 200 if path in self.server.answers else 404
        if self.server.password and "authorization" not in self.headers:
            code = 401
        self.rfile.read(int(self.headers.get("content-length", 0)))
        body = self.server.answers.get(path)
        self.send_response(code)
        self.end_headers()
        self.wfile.write(body if isinstance(body, bytes) else json.dumps(body).encode())

    do_POST = do_GET

    def date_time_string(self, _timestamp: float | None = None) -> str:
        return super().date_time_string((datetime.now(UTC) + self.server.skew).timestamp())

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def stub(tool: Tool) -> Iterator[Stub]:
    with Stub() as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        tool.set(PREFECT_API_URL=f"http://127.0.0.1:{server.server_address[1]}/api")
        yield server
        server.shutdown()


def test_a_server_in_order_is_all_ok(tool: Tool, stub: Stub) -> None:
    found = tool.doctor()
    for subject in ("Prefect", "schedule", "pool", "last run", "alerts"):
        assert found[subject][0] == "ok", found


def test_a_server_that_is_away_is_wrong(tool: Tool) -> None:
    tool.set(PREFECT_API_URL=f"http://user:s3cret@127.0.0.1:{free_port()}/api")
    level, finding = tool.doctor(code=1)["Prefect"]
    assert (level, "did not answer" in finding) == ("wrong", True)
    assert "s3cret" not in finding


def test_a_server_is_asked_also_where_the_database_is_away(tool: Tool, stub: Stub) -> None:
    tool.set(PROVISION_DATABASE_URL=f"postgresql://reaper@127.0.0.1:{free_port()}/shop")
    found = tool.doctor(code=1)
    assert (found["database"][0], found["Prefect"][0]) == ("wrong", "ok")


def test_a_server_that_wants_a_password_is_wrong_until_it_gets_one(tool: Tool, stub: Stub) -> None:
    stub.password = "wanted"
    assert "PREFECT_API_AUTH_STRING" in tool.doctor(code=1)["Prefect"][1]
    tool.set(PREFECT_API_AUTH_STRING="user:wanted")
    assert tool.doctor()["Prefect"][0] == "ok"


@pytest.mark.parametrize("body", [b"<html>", b"[1]", b"{}"])
def test_something_that_is_no_prefect_server_is_wrong(tool: Tool, stub: Stub, body: bytes) -> None:
    stub.answers["/deployments/filter"] = body
    assert any(level == "wrong" for level, _ in tool.doctor(code=1).values())


def test_an_address_without_api_is_said(tool: Tool, stub: Stub) -> None:
    del stub.answers["/admin/version"]
    assert "ends in /api" in tool.doctor(code=1)["Prefect"][1]


def test_a_server_whose_clock_differs_is_said(tool: Tool, stub: Stub) -> None:
    stub.skew = timedelta(hours=2)
    level, finding = tool.doctor()["Prefect"]
    assert level == "warning"
    assert "clock" in finding


def test_a_sweep_that_is_not_deployed_is_wrong(tool: Tool, stub: Stub) -> None:
    stub.answers["/deployments/filter"] = []
    assert "prefect --no-prompt deploy --all" in tool.doctor(code=1)["deployment"][1]


@pytest.mark.parametrize(
    "change", [{"paused": True}, {"schedules": []}, {"schedules": [{"active": False}]}]
)
def test_a_schedule_that_is_not_active_is_wrong(
    tool: Tool, stub: Stub, change: dict[str, Any]
) -> None:
    stub.deployment |= change
    assert tool.doctor(code=1)["schedule"][0] == "wrong"


@pytest.mark.parametrize(
    ("path", "answer", "said"),
    [
        ("/work_pools/the%20pool", {"is_paused": True}, "the pool is paused"),
        ("/work_pools/the%20pool/queues/default", {"is_paused": True}, "queue default"),
        ("/work_pools/the%20pool/workers/filter", [], "No worker"),
        ("/work_pools/the%20pool/workers/filter", [{"status": "OFFLINE"}], "No worker"),
    ],
)
def test_a_pool_from_which_nothing_runs_is_wrong(
    tool: Tool, stub: Stub, path: str, answer: object, said: str
) -> None:
    stub.answers[path] = answer
    level, finding = tool.doctor(code=1)["pool"]
    assert (level, said in finding) == ("wrong", True)


def test_a_deployment_without_a_pool_is_wrong(tool: Tool, stub: Stub) -> None:
    stub.deployment["work_pool_name"] = None
    assert tool.doctor(code=1)["pool"][0] == "wrong"


def test_a_last_sweep_that_ended_long_ago_is_wrong(tool: Tool, stub: Stub) -> None:
    stub.run["end_time"] = ago(16)
    level, finding = tool.doctor(code=1)["last run"]
    assert (level, "16 min ago" in finding) == ("wrong", True)


def test_a_last_sweep_that_is_red_is_said_with_its_state(tool: Tool, stub: Stub) -> None:
    stub.run |= {"state_name": "Refused", "state_type": "FAILED"}
    level, finding = tool.doctor()["last run"]
    assert (level, "Refused" in finding) == ("warning", True)


def test_no_sweep_yet_is_said(tool: Tool, stub: Stub) -> None:
    stub.answers["/flow_runs/filter"] = []
    assert "none has ended yet" in tool.doctor()["last run"][1]


@pytest.mark.parametrize("automations", [[], [{"name": "provisioning: a", "enabled": False}]])
def test_alerts_that_nobody_gets_are_said(
    tool: Tool, stub: Stub, automations: list[dict[str, Any]]
) -> None:
    stub.answers["/automations/filter"] = automations
    assert tool.doctor()["alerts"][0] == "warning"


@pytest.fixture
def new_server(postgres: LocalPostgres, tmp_path: Path) -> Iterator[str]:
    """A Prefect server of this test's own, where nothing is deployed. Its API's address."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/api"
    with server_process(postgres, "prefect_doctor", port, tmp_path / "server.log") as server:
        until_healthy(server, url)
        yield url


def test_a_real_server_is_asked_in_its_own_words(tool: Tool, new_server: str) -> None:
    tool.set(PREFECT_API_URL=new_server)
    assert "not deployed" in tool.doctor(code=1)["deployment"][1]
    with httpx.Client(base_url=new_server, timeout=30) as http:

        def make(path: str, **fields: Any) -> str:
            answer = http.post(path, json=fields).raise_for_status()
            return str(answer.json()["id"])

        flow = make("/flows/", name="reap-stuck-provisions")
        make("/work_pools/", name="doctor's pool", type="process")
        deployment = make(
            "/deployments/",
            name="every-5-minutes",
            flow_id=flow,
            work_pool_name="doctor's pool",
            schedules=[{"active": True, "schedule": {"interval": 300}}],
        )
        make(
            "/flow_runs/",
            flow_id=flow,
            deployment_id=deployment,
            state={"type": "COMPLETED", "name": "Clean"},
        )
        found = tool.doctor(code=1)
    assert found["Prefect"][0] == "ok"
    assert found["schedule"][0] == "ok"
    assert "No worker of doctor's pool is online" in found["pool"][1]
    assert "Clean" in found["last run"][1]
    assert "alerts" in found
