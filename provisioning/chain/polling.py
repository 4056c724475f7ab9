"""The bounded wait: ask again and again, until there is an answer or the attempt's time is up.

The time counts from the attempt's start stamp by the database's clock. So all waits of an attempt
share one deadline, and a wait that is taken up again, by a retried task or a resumed run, goes on
where it was instead of starting over.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

from provisioning.errors import GaveUp, NotYet
from provisioning.text import duration

PAUSES = (1.0, 2.0, 4.0, 8.0, 10.0)
"""Seconds before each further question; the last one again and again."""

JITTER = 0.2
"""The part by which a pause may be longer, so that chains that began together drift apart."""

T = TypeVar("T")


async def until(
    ask: Callable[[], Awaitable[T]],
    *,
    age: Callable[[], Awaitable[timedelta]],
    limit: timedelta,
    tell: Callable[[str], None],
) -> T:
    """Ask until there is an answer.

    Args:
        ask: gives the answer, or raises `NotYet`. Asked at least once, however late it is.
        age: how long ago the attempt started. May raise to end the wait.
        limit: the age at which to give up.
        tell: told why there is no answer, each time that it changes.

    Raises:
        GaveUp: with the last reason.
    """
    asked, told = 0, ""
    while True:
        started_ago = await age()
        try:
            return await ask()
        except NotYet as reason:
            pause = pause_before_next(asked, reason.wait, started_ago, limit)
            if pause is None:
                raise GaveUp(gave_up(reason, started_ago)) from None
            if str(reason) != told:
                told = str(reason)
                tell(told)
        asked += 1
        await asyncio.sleep(pause.total_seconds() * random.uniform(1, 1 + JITTER))  # noqa: S311


def pause_before_next(
    asked: int, wished: timedelta, age: timedelta, limit: timedelta
) -> timedelta | None:
    """How long to wait before asking again; None where it is time to give up.

    The last question comes at the limit. One that may only be asked past it is not asked.
    """
    left = limit - age
    if left <= timedelta(0) or wished > left:
        return None
    usual = timedelta(seconds=PAUSES[min(asked, len(PAUSES) - 1)])
    return max(min(usual, left), wished)


def gave_up(reason: NotYet, age: timedelta) -> str:
    """Why the chain gave up, for people."""
    later = f", and asks to be left alone for {duration(reason.wait)}" if reason.wait else ""
    return f"gave up {duration(age)} after the start: {reason}{later}"
