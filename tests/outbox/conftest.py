"""Failures that owe notices, real receivers for them, and a network that ends at loopback."""

import errno
import socket
from collections.abc import AsyncIterator
from ipaddress import ip_address
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.outbox.owing import Network, Owing, config
from tests.outbox.receivers import Receiver, receiving
from tests.sites import Sites


@pytest.fixture(autouse=True)
def network(monkeypatch: pytest.MonkeyPatch) -> Network:
    """Nothing but loopback is ever dialled, whatever guard a change may break."""
    network = Network({}, {}, [])
    really_dial, really_resolve = socket.socket.connect, socket.getaddrinfo

    def dial(self: socket.socket, address: Any) -> None:
        if self.family == socket.AF_UNIX:
            return really_dial(self, address)
        network.dialled.append(address[0])
        if address[0] in network.routes:
            address = ("127.0.0.1", network.routes[address[0]])
        if not ip_address(address[0].split("%")[0]).is_loopback:
            raise OSError(errno.ENETUNREACH, "no such network in a test")
        return really_dial(self, address)

    def resolve(host: Any, port: Any, *args: Any, **options: Any) -> list[Any]:
        name = host.decode() if isinstance(host, bytes) else host
        if name in network.names:
            return [
                (
                    socket.AF_INET6 if ":" in address else socket.AF_INET,
                    socket.SOCK_STREAM,
                    6,
                    "",
                    (address, port),
                )
                for address in network.names[name]
            ]
        if name != "localhost":
            options["flags"] = options.get("flags", 0) | socket.AI_NUMERICHOST
        return really_resolve(host, port, *args, **options)

    monkeypatch.setattr(socket.socket, "connect", dial)
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    return network


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """The merchant's."""
    async with receiving() as receiver:
        yield receiver


@pytest.fixture
async def platform() -> AsyncIterator[Receiver]:
    """The platform's, for teardowns."""
    async with receiving() as receiver:
        yield receiver


@pytest.fixture
def owing(engine: AsyncEngine, sites: Sites) -> Owing:
    return Owing(engine, sites, config())
