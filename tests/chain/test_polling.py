"""The bounded wait: when to ask again, when to give up, and what is said about it."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from provisioning.chain import polling
from provisioning.chain.polling import pause_before_next, until
from provisioning.errors import GaveUp, NotYet

LIMIT = timedelta(minutes=20)
NONE = timedelta(0)


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


@pytest.mark.parametrize(
    ("asked", "wished", "age", "pause"),
    [
        pytest.param(0, 0, 0, 1, id="soon at first"),
        pytest.param(2, 0, 60, 4, id="then less often"),
        pytest.param(50, 0, 600, 10, id="but never rarer than this"),
        pytest.param(0, 90, 60, 90, id="a wish is honoured"),
        pytest.param(50, 0, 1197, 3, id="the last question comes at the limit"),
        pytest.param(0, 0, 1200, None, id="at the limit it is over"),
        pytest.param(0, 0, 9999, None, id="and long after it"),
        pytest.param(0, 7200, 60, None, id="a wish past the limit ends it at once"),
    ],
)
def test_when_to_ask_again(asked: int, wished: float, age: float, pause: float | None) -> None:
    expected = None if pause is None else seconds(pause)
    assert pause_before_next(asked, seconds(wished), seconds(age), LIMIT) == expected


def ages(*minutes: float) -> Callable[[], Awaitable[timedelta]]:
    left = list(minutes)

    async def age() -> timedelta:
        return timedelta(minutes=left.pop(0))

    return age


async def installing() -> None:
    raise NotYet("the upstream says 'installing'")


async def test_the_time_is_the_attempts_own_and_not_this_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(polling, "PAUSES", (0.01,))
    with pytest.raises(GaveUp, match="gave up 21 min after the start: the upstream says 'inst"):
        await until(installing, age=ages(18, 19, 21), limit=LIMIT, tell=lambda _why: None)


async def test_a_wait_that_is_resumed_past_the_limit_asks_once() -> None:
    async def installed() -> str:
        return "site"

    assert await until(installed, age=ages(45), limit=LIMIT, tell=lambda _why: None) == "site"
    with pytest.raises(GaveUp):
        await until(installing, age=ages(45), limit=LIMIT, tell=lambda _why: None)


async def test_each_change_of_the_answer_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polling, "PAUSES", (0.01,))
    answers = ["queued", "queued", "queued", "brewing", "brewing"]
    told: list[str] = []

    async def ask() -> str:
        if answers:
            raise NotYet(answers.pop(0))
        return "done"

    await until(ask, age=ages(*[1] * 6), limit=LIMIT, tell=told.append)
    assert told == ["queued", "brewing"]


async def test_an_error_ends_the_wait_as_it_is() -> None:
    async def broken() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await until(broken, age=ages(1), limit=LIMIT, tell=lambda _why: None)
