"""The bounded wait: when to ask again, when to give up, and what is said about it."""

import asyncio
import time
from datetime import timedelta

import psycopg
import pytest
from sqlalchemy.exc import DBAPIError

from provisioning.chain import polling
from provisioning.chain.polling import Time, pause_before_next, until
from provisioning.driver_errors import connection_failure, statement_failure
from provisioning.errors import DatabaseError, GaveUp, NotYet

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


def within(*minutes: float) -> Time:
    """The time of an attempt that is that old whenever the database is asked."""
    left = list(minutes)

    async def age() -> timedelta:
        return timedelta(minutes=left.pop(0))

    return Time(LIMIT, age)


async def installing() -> None:
    raise NotYet("the upstream says 'installing'")


def nobody(_why: str) -> None:
    """Told in vain."""


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polling, "PAUSES", (0.01,))


@pytest.mark.usefixtures("short_pauses")
async def test_the_time_is_the_attempts_own_and_not_this_waits() -> None:
    with pytest.raises(GaveUp, match="gave up 21 min after the start: the upstream says 'inst"):
        await until(installing, within=within(18, 19, 21), tell=nobody)


async def test_a_wait_that_is_resumed_past_the_limit_asks_once() -> None:
    async def installed() -> str:
        return "site"

    assert await until(installed, within=within(45), tell=nobody) == "site"
    with pytest.raises(GaveUp):
        await until(installing, within=within(45), tell=nobody)


@pytest.mark.guarantee(
    fault="a list of the upstream's sites whose many pages are slow",
    holds="the chain gives up 20 seconds after its limit at the latest",
    guard="without the bound of `_answer`, the question never ends",
)
async def test_an_answer_that_goes_on_and_on_is_left_soon_after_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(polling, "LAST_ANSWER", 0.05)

    async def pages() -> None:
        for _ in range(100_000):
            await asyncio.sleep(0.01)

    with pytest.raises(GaveUp, match="gave up 20 min after the start: the last"):
        await until(pages, within=within(19.999, 20), tell=nobody)


async def test_a_timeout_of_the_question_itself_is_its_own() -> None:
    async def broken() -> None:
        raise TimeoutError("of something inside")

    with pytest.raises(TimeoutError, match="of something inside"):
        await until(broken, within=within(1), tell=nobody)


async def test_a_wish_past_the_limit_is_told_as_that() -> None:
    async def busy() -> None:
        raise NotYet("the upstream answered 503 to GET /sites", timedelta(hours=2))

    with pytest.raises(GaveUp) as caught:
        await until(busy, within=within(2), tell=nobody)
    assert str(caught.value) == (
        "the upstream answered 503 to GET /sites, and asks to be left alone for 2 h, which is "
        "longer than the 17 min that this attempt has left"
    )


@pytest.mark.usefixtures("short_pauses")
async def test_each_change_of_the_answer_is_told_once() -> None:
    answers = ["queued", "queued", "queued", "brewing", "brewing"]
    told: list[str] = []

    async def ask() -> str:
        if answers:
            raise NotYet(answers.pop(0))
        return "done"

    await until(ask, within=within(*[1] * 6), tell=told.append)
    assert told == ["queued", "brewing"]


async def test_an_error_ends_the_wait_as_it_is() -> None:
    async def broken() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await until(broken, within=within(1), tell=nobody)


def database_error(code: str | None) -> DatabaseError:
    """As `provisioning.database` raises it."""
    return connection_failure(psycopg.OperationalError("x")) if code is None else answered(code)


def answered(code: str) -> DatabaseError:
    """As `provisioning.database` raises it for a statement that the server answers so."""
    cause = psycopg.errors.lookup(code)("the server said no")
    return statement_failure(DBAPIError("SELECT 1", {}, cause))


PASSING = [None, "08006", "40001", "53300", "55P03", "57P01", "57P03", "57014", "25006"]


@pytest.mark.usefixtures("short_pauses")
@pytest.mark.parametrize("code", PASSING)
async def test_a_database_that_is_away_is_waited_for(code: str | None) -> None:
    errors = [database_error(code)] * 3
    told: list[str] = []

    async def ask() -> str:
        if errors:
            raise errors.pop()
        return "done"

    assert await until(ask, within=within(*[1] * 4), tell=told.append) == "done"
    assert len(told) == 1


@pytest.mark.usefixtures("short_pauses")
@pytest.mark.parametrize("code", ["42501", "42P01", "23514", "22P02"])
async def test_what_the_database_refuses_is_final(code: str) -> None:
    async def ask() -> None:
        raise database_error(code)

    with pytest.raises(DatabaseError):
        await until(ask, within=within(1), tell=nobody)


@pytest.mark.usefixtures("short_pauses")
async def test_while_the_database_is_away_the_time_passes_and_nothing_is_asked() -> None:
    asked: list[str] = []

    async def away() -> timedelta:
        raise database_error(None)

    async def ask() -> None:
        asked.append("the upstream")

    began = time.monotonic()
    with pytest.raises(GaveUp, match="after the start: the connection to the database failed"):
        await until(ask, within=Time(seconds(0.3), away), tell=nobody)
    assert 0.3 <= time.monotonic() - began < 1
    assert asked == []
