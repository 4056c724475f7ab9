"""An HTTP API on loopback, whose answers a test can spoil."""

import asyncio
import json
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

TOKEN = "forge-token-7f3a9c"

LOST = "lost"
"""The work is done, and the connection closed without an answer."""


@dataclass(frozen=True)
class Spoilt:
    """An answer in the place of the right one, and no work done."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: str = "{}"
    endless: bool = False
    """Whether spaces follow the body until the client has gone."""


@dataclass
class StubServer:
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
    at_a_time: int | None = None
    """How many requests it takes within `window` seconds; any number where it is None."""
    window: float = 60
    taken: list[float] = field(default_factory=list)
    """When it took the requests of the last window."""
    refused: int = 0
    """How many were too many."""

    @property
    def health_url(self) -> str:
        """Where the sites are visited."""
        return f"{self.url}/visit/{{domain}}"

    def spoil(self, method: str, *answers: Any) -> None:
        """Spoil the next answers to a method: `LOST`, or a `Spoilt` one."""
        self.spoilt.setdefault(method, deque()).extend(answers)

    def creates(self) -> int:
        """How many times a site was asked for."""
        return sum(asked in ("POST sites", "POST custom") for asked in self.asked)

    async def until_asked(self, *requests: str) -> None:
        """Wait until those requests have come in."""
        for _ in range(3000):
            if set(requests) <= set(self.asked):
                return
            await asyncio.sleep(0.02)
        raise AssertionError(f"{requests} never came; what came: {self.asked}")

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        """Do the work of a request that is not of the API."""
        if path.startswith("/visit/"):
            return (self.health.popleft() if self.health else 200), {}
        if path.startswith("/hook/"):
            return 204, None
        return 404, {"message": "The resource you are looking for could not be found."}

    def now(self) -> Any:
        """The status of a site that is read."""
        return self.first_statuses.popleft() if self.first_statuses else self.status

    def over_its_limit(self) -> Spoilt | None:
        """Laravel's answer to a request too many, with its headers; None where it is not one."""
        if self.at_a_time is None:
            return None
        now = time.time()
        self.taken = [taken for taken in self.taken if now - taken < self.window]
        if len(self.taken) < self.at_a_time:
            self.taken.append(now)
            return None
        self.refused += 1
        reset = self.taken[0] + self.window
        headers = {
            "retry-after": str(int(reset - now) + 1),
            "x-ratelimit-limit": str(self.at_a_time),
            "x-ratelimit-remaining": "0",
            "x-ratelimit-reset": str(int(reset) + 1),
        }
        return Spoilt(429, headers, '{"message": "Too Many Attempts."}')


Stub = TypeVar("Stub", bound=StubServer)


@contextmanager
def serving(kind: type[Stub]) -> Iterator[Stub]:
    """Serve for the length of the `with` block."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.handle_request()

        def do_POST(self) -> None:
            self.handle_request()

        def handle_request(self) -> None:
            target = urlsplit(self.path)
            path, query = unquote(target.path), dict(parse_qsl(target.query))
            length = int(self.headers.get("content-length", 0))
            body = json.loads(self.rfile.read(length)) if length else None
            stub.asked.append(f"{self.command} {path.rsplit('/', 1)[1]}")
            api = path.startswith("/api/")
            queue = stub.spoilt.get(self.command)
            spoilt = queue.popleft() if queue and api else None
            if spoilt is None and api:
                spoilt = stub.over_its_limit()
            if isinstance(spoilt, Spoilt):
                if spoilt.endless:
                    self.send_without_end(spoilt)
                else:
                    self.send(spoilt.status, spoilt.body, spoilt.headers)
                return
            authorized = self.headers["authorization"] == f"Bearer {TOKEN}"
            if api and not authorized:
                self.send(401, json.dumps({"seen": self.headers["authorization"]}), {})
                return
            with working:
                status, document = stub.answer(self.command, path, query, body)
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

        def send_without_end(self, spoilt: Spoilt) -> None:
            self.send_response(spoilt.status)
            self.end_headers()
            self.wfile.write(spoilt.body.encode())
            with suppress(OSError):
                while True:
                    self.wfile.write(b" " * 65_536)

        def log_message(self, *_arguments: Any) -> None:
            """Say nothing."""

    working = threading.Lock()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    stub = kind(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield stub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
