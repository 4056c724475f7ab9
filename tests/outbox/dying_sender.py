"""Run as a process: sends one notice, and kills itself with SIGKILL at the point it is told."""

import asyncio
import os
import signal
import sys
from typing import Any

from provisioning.database import database
from provisioning.outbox import delivery
from provisioning.outbox.claims import record
from provisioning.outbox.sender import post
from provisioning.outbox.store import TAKEN_UP, list_owed
from tests.outbox.owing import config


def die(*_: Any, **__: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


async def main(point: str, url: str) -> None:
    really_post, really_record = post, record

    async def post_then_die(*arguments: Any, **options: Any) -> Any:
        await really_post(*arguments, **options)
        die()

    async def record_then_die(*arguments: Any, **options: Any) -> None:
        await really_record(*arguments, **options)
        die()

    points: dict[str, tuple[str, Any]] = {
        "before the claim": ("claim", die),
        "before sending": ("post", die),
        "after sending": ("post", post_then_die),
        "before recording": ("record", die),
        "after recording": ("record", record_then_die),
    }
    name, replacement = points[point]
    setattr(delivery, name, replacement)
    async with database(url) as engine:
        backlog = await list_owed(engine, TAKEN_UP, teardowns=False)
        await delivery.deliver(engine, backlog.owed[0], config())


asyncio.run(main(*sys.argv[1:]))
