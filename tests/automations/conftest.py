"""The automations on a real server, and a real receiver of their alerts."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from prefect.blocks.webhook import Webhook
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import FlowRun, State

from deployments import automations
from flows.reap_stuck_provisions import reap_stuck_provisions
from flows.ui.alerts import tell_of_the_end
from tests.flow.conftest import sweep  # noqa: F401 - a fixture for this folder too
from tests.production import Production

ALERT_BLOCK = "webhook/alerts"

End = tuple[str, str, dict[str, Any]]
"""The type and the name of a run's last state, and the run's parameters."""


@dataclass
class Receiver:
    """Takes what the alerts' block sends, and keeps the texts."""

    url: str = ""
    texts: list[str] = field(default_factory=list)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """An HTTP server on this machine, as a chat's incoming webhook is one elsewhere."""
    received = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.texts.append(json.loads(body)["text"])
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        received.url = f"http://127.0.0.1:{server.server_port}/alerts"
        Thread(target=server.serve_forever, daemon=True).start()
        yield received
        server.shutdown()


@pytest.fixture
def regions(production: Production) -> Iterator[tuple[str, str]]:
    """The ids of two more deployments of the sweep, north and south."""
    flow_id = production.deployment["flow_id"]
    north, south = (
        production.post("/deployments/", {"name": name, "flow_id": flow_id})["id"]
        for name in ("north", "south")
    )
    yield north, south
    for made in (north, south):
        production.http.delete(f"/deployments/{made}").raise_for_status()


async def end_a_sweep(production: Production, deployment: str, end: End) -> None:
    """A run of the sweep that ends so: its state on the server, and its hook."""
    kind, name, parameters = end
    made = production.post(
        f"/deployments/{deployment}/create_flow_run",
        {"name": "made by a test", "parameters": parameters},
    )
    state = {"type": kind, "name": name}
    production.post(f"/flow_runs/{made['id']}/set_state", {"state": state, "force": True})
    if kind != "CRASHED":  # whose process is gone
        ended: State[Any] = State.model_validate(state | {"timestamp": datetime.now(UTC)})
        run = FlowRun.model_validate(made)
        await tell_of_the_end(reap_stuck_provisions, run, ended)


@pytest.fixture
def client(prefect_api: str) -> Iterator[SyncPrefectClient]:
    """A client of the server, on which no automation of ours is left over."""
    with get_client(sync_client=True) as client:
        yield client
        for entry in automations.load():
            for automation in client.read_automations_by_name(entry["name"]):
                client.delete_automation(automation.id)


@pytest.fixture
def alert_block(client: SyncPrefectClient, receiver: Receiver) -> str:
    """A webhook block that leads to the receiver, by the name that an operator gives."""
    Webhook(url=receiver.url).save(ALERT_BLOCK.split("/")[1], overwrite=True)
    return ALERT_BLOCK
