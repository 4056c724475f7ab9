"""A real HTTP receiver on loopback, which does what it is told and keeps what it got."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.sites import number


@dataclass(frozen=True)
class Request:
    """One request as it arrived."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def notice_id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def site_id(self) -> int:
        return number(json.loads(self.body)["data"]["site_id"])


Behaviour = Callable[[Request, asyncio.StreamWriter], Awaitable[None]]


def answering(status: int, **headers: str) -> Behaviour:
    """Answers with a status and headers (underscores stand for dashes)."""
    lines = [f"HTTP/1.1 {status} Whatever", "content-length: 0"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    answer = "\r\n".join([*lines, "", ""]).encode()

    async def answer_it(_request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)

    return answer_it


async def hanging(_request: Request, _writer: asyncio.StreamWriter) -> None:
    """Takes the request and says nothing."""
    await asyncio.sleep(3600)


async def dripping(_request: Request, writer: asyncio.StreamWriter) -> None:
    """Sends its answer one byte every two seconds."""
    for byte in b"HTTP/1.1 204 No Content\r\n\r\n":
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(2)


async def flooding(_request: Request, writer: asyncio.StreamWriter) -> None:
    """Answers 200 and then a body without end."""
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n")
    while True:
        writer.write(b"x" * 65536)
        await writer.drain()


@dataclass
class Receiver:
    """Follows `behaviours` in order, and then goes on with `default`."""

    port: int = 0
    connections: int = 0
    requests: list[Request] = field(default_factory=list)
    behaviours: list[Behaviour] = field(default_factory=list)
    default: Behaviour = field(default_factory=lambda: answering(204))

    def url(self, path: str = "/hook", scheme: str = "http") -> str:
        return f"{scheme}://127.0.0.1:{self.port}{path}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            request = await _read(reader)
            self.requests.append(request)
            behave = self.behaviours.pop(0) if self.behaviours else self.default
            await behave(request, writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def receiving(tls: ssl.SSLContext | None = None) -> AsyncIterator[Receiver]:
    """A receiver for the `with` block."""
    receiver, handlers = Receiver(), set[asyncio.Task[Any]]()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        handlers.add(task)
        await receiver.serve(reader, writer)

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=tls, backlog=512)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        for handler in handlers:
            handler.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)


async def _read(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    method, target, _ = head[0].split(" ")
    headers = {
        name.lower(): value for name, value in (line.split(": ", 1) for line in head[1:] if line)
    }
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Request(method, target, headers, body)
