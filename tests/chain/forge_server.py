"""A Forge-shaped upstream on loopback, whose answers a test can spoil."""

import asyncio
import json
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

TOKEN = "forge-token-7f3a9c"
SERVER = "12"

LOST = "lost"
"""The work is done, and the connection closed without an answer."""


@dataclass(frozen=True)
class Spoilt:
    """An answer in the place of the right one, and no work done."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: str = "{}"


@dataclass
class ForgeServer:
    """What the upstream holds, what it was asked, and what it will answer."""

    url: str
    sites: list[dict[str, Any]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    """Each request, as its method and the last part of its path, oldest first."""
    spoilt: dict[str, deque[Any]] = field(default_factory=dict)
    """By method: what happens to the next requests."""
    status: Any = "installed"
    """The status of every site, whenever it is read."""
    first_statuses: deque[Any] = field(default_factory=deque)
    """The statuses before that, one a reading."""
    health: deque[int] = field(default_factory=deque)
    """The first answers of a new site to its visitors; then 200."""

    @property
    def health_url(self) -> str:
        """Where the sites are visited."""
        return f"{self.url}/visit/{{domain}}"

    def spoil(self, method: str, *answers: Any) -> None:
        """Spoil the next answers to a method: `LOST`, or a `Spoilt` one."""
        self.spoilt.setdefault(method, deque()).extend(answers)

    def creates(self) -> int:
        """How many times a site was asked for."""
        return sum(asked.startswith("POST") for asked in self.asked)

    async def until_asked(self, *requests: str) -> None:
        """Wait until those requests have come in."""
        for _ in range(3000):
            if set(requests) <= set(self.asked):
                return
            await asyncio.sleep(0.02)
        raise AssertionError(f"{requests} never came; what came: {self.asked}")

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """Do the work of a request."""
        place = f"/api/servers/{SERVER}/sites"
        if path.startswith("/visit/"):
            return (self.health.popleft() if self.health else 200), {}
        if path.startswith("/hook/"):
            return 204, None
        if method == "POST" and path == place:
            if any(site["name"] == body["domain"] for site in self.sites):
                return 422, {"domain": ["The domain has already been taken."]}
            self.sites.append({"id": 100 + len(self.sites), "name": body["domain"]})
            return 200, {"site": self.sites[-1] | {"status": "installing"}}
        if method == "GET" and path == place:
            return 200, {"sites": [site | {"status": "installing"} for site in self.sites]}
        for site in self.sites:
            if path == f"{place}/{site['id']}":
                status = self.first_statuses.popleft() if self.first_statuses else self.status
                return 200, {"site": site | {"status": status}}
        return 404, {"message": "not found"}


@contextmanager
def forge_server() -> Iterator[ForgeServer]:
    """Serve for the length of the `with` block."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.handle_request()

        def do_POST(self) -> None:
            self.handle_request()

        def handle_request(self) -> None:
            path = unquote(urlsplit(self.path).path)
            length = int(self.headers.get("content-length", 0))
            body = json.loads(self.rfile.read(length)) if length else None
            forge.asked.append(f"{self.command} {path.rsplit('/', 1)[1]}")
            api = path.startswith("/api/")
            queue = forge.spoilt.get(self.command)
            spoilt = queue.popleft() if queue and api else None
            if isinstance(spoilt, Spoilt):
                self.send(spoilt.status, spoilt.body, spoilt.headers)
                return
            authorized = self.headers["authorization"] == f"Bearer {TOKEN}"
            if api and not authorized:
                self.send(401, json.dumps({"seen": self.headers["authorization"]}), {})
                return
            status, document = forge.answer(self.command, path, body)
            if spoilt is LOST:
                self.close_connection = True
                return
            self.send(status, json.dumps(document) if document is not None else "", {})

        def send(self, status: int, body: str, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body.encode())))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_arguments: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    forge = ForgeServer(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield forge
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
