"""The automations on a real server, and a real receiver of their alerts."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from prefect.blocks.webhook import Webhook
from prefect.client.orchestration import SyncPrefectClient, get_client

from deployments import automations
from tests.flow.conftest import sweep  # noqa: F401 - a fixture for this folder too

ALERT_BLOCK = "webhook/alerts"


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
