"""The bounded wait: ask again and again, until there is an answer or the attempt's time is up.

The time counts from the attempt's start stamp by the database's clock. So all waits of an attempt
share one deadline, and a wait that is taken up again, by a retried task or a resumed run, goes on
where it was instead of starting over. While the database is away, this process's clock counts on.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

from provisioning.errors import DatabaseError, GaveUp, NotYet
from provisioning.text import duration

PAUSES = (1.0, 2.0, 4.0, 8.0, 10.0)
"""Seconds before each further question; the last one again and again."""

JITTER = 0.2
"""The part by which a pause may be longer, so that chains that began together drift apart."""

LAST_ANSWER = 20.0
"""Seconds past the limit for which an answer is waited for, as of a list of many slow pages."""

_CANCELLED, _READ_ONLY = "57014", "25006"
"""A statement that took too long, and a server that has just become a standby."""

T = TypeVar("T")


class Time:
    """How much time an attempt has left."""

    def __init__(
        self, limit: timedelta, look: Callable[[], Awaitable[timedelta]] | None = None
    ) -> None:
        """Starts at an age of zero.

        Args:
            limit: the age at which to give up.
            look: how old the attempt is, by the database's clock. May raise to end a wait.
        """
        self.limit = limit
        self._look = look
        self._known, self._at = timedelta(0), time.monotonic()

    async def check(self) -> None:
        """Ask the database how old the attempt is, and so whether it is still in flight."""
        if self._look:
            self._known, self._at = await self._look(), time.monotonic()

    @property
    def age(self) -> timedelta:
        """The age when it was last looked up, and what has passed since."""
        return self._known + timedelta(seconds=time.monotonic() - self._at)


async def until(ask: Callable[[], Awaitable[T]], *, within: Time, tell: Callable[[str], None]) -> T:
    """Ask until there is an answer. While the database is away, nothing else is asked.

    Args:
        ask: gives the answer, or raises `NotYet`. Asked at least once, however late it is.
        tell: told why there is no answer, each time that it changes.

    Raises:
        GaveUp: with the last reason.
    """
    asked, told = 0, ""
    while True:
        try:
            await within.check()
            return await _answer(ask, within.limit - within.age)
        except NotYet as not_yet:
            reason = not_yet
        except DatabaseError as error:
            if not passes(error):
                raise
            reason = NotYet(_in_words(error))
        pause = pause_before_next(asked, reason.wait, within.age, within.limit)
        if pause is None:
            raise GaveUp(gave_up(reason, within.age, within.limit)) from None
        if str(reason) != told:
            told = str(reason)
            tell(told)
        asked += 1
        await asyncio.sleep(pause.total_seconds() * random.uniform(1, 1 + JITTER))  # noqa: S311


async def _answer(ask: Callable[[], Awaitable[T]], left: timedelta) -> T:
    try:
        async with asyncio.timeout(max(left.total_seconds(), 0) + LAST_ANSWER) as bound:
            return await ask()
    except TimeoutError:
        if bound.expired():
            raise NotYet("the last answer was not complete") from None
        raise


def passes(error: DatabaseError) -> bool:
    """Whether the database may answer later without anybody's help."""
    return error.transient or error.sqlstate in (_CANCELLED, _READ_ONLY)


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


def gave_up(reason: NotYet, age: timedelta, limit: timedelta) -> str:
    """Why the chain gave up, for people."""
    if age >= limit:
        return f"gave up {duration(age)} after the start: {reason}"
    return (
        f"{reason}, and asks to be left alone for {duration(reason.wait)}, which is longer than "
        f"the {duration(limit - age)} that this attempt has left"
    )


def _in_words(error: DatabaseError) -> str:
    return "somebody holds the row of the site" if error.locked else str(error)
