"""What an attempt comes to."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioning.http.client import Answer, NoAnswer, Reply, Unsendable
from provisioning.http.retry_after import retry_after
from provisioning.outbox.notices import Kind
from provisioning.outbox.retry_policy import Fate, Verdict, judge

FAILED_AT = datetime(2025, 1, 15, 15, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)


def after(result: Reply, *, kind: Kind = Kind.WEBHOOK, attempts: int = 1) -> Verdict:
    return judge(kind, result, attempts=attempts, failed_at=FAILED_AT, now=FAILED_AT, jitter=0)


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
@pytest.mark.parametrize("kind", Kind)
def test_any_2xx_delivers(kind: Kind, status: int) -> None:
    assert after(Answer(status, None), kind=kind).fate is Fate.DELIVERED


def test_gone_gives_a_webhook_up_at_once() -> None:
    assert after(Answer(410, None)).fate is Fate.GIVEN_UP


def test_what_is_gone_already_counts_as_torn_down() -> None:
    assert after(Answer(410, None), kind=Kind.TEARDOWN).fate is Fate.DELIVERED


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308, 400, 401, 404, 429, 500, 502, 503])
def test_everything_else_stays_owed(kind: Kind, status: int) -> None:
    verdict = after(Answer(status, None), kind=kind)
    assert verdict.fate is Fate.OWED
    assert str(status) in verdict.reason
    assert verdict.wait == timedelta(minutes=4)


@pytest.mark.parametrize("status", [302, 400, 404, 429, 500, 503])
def test_a_receiver_that_asks_for_time_gets_it(status: int) -> None:
    assert after(Answer(status, "7200")).wait == 2 * HOUR
    assert after(Answer(status, "Wed, 15 Jan 2025 18:30:00 GMT")).wait == 3 * HOUR


def test_retry_after_never_shortens_the_backoff() -> None:
    assert after(Answer(503, "1"), attempts=3).wait == HOUR


def test_tries_are_spread_and_the_first_wait_stays_below_the_interval_of_sweeps() -> None:
    error = Answer(500, None)
    waits = [
        judge(
            Kind.WEBHOOK, error, attempts=1, failed_at=FAILED_AT, now=FAILED_AT, jitter=jitter
        ).wait
        for jitter in (0, 0.5, 1)
    ]
    assert waits == [timedelta(minutes=4), timedelta(minutes=4.4), timedelta(minutes=4.8)]


def test_what_can_never_be_sent_is_given_up_at_once() -> None:
    verdict = after(Unsendable("blocked: for a reason"))
    assert verdict == Verdict(Fate.GIVEN_UP, "blocked: for a reason")


@pytest.mark.parametrize("result", [NoAnswer("silence"), Answer(500, None)])
def test_backs_off_and_gives_up_after_about_three_days(result: Reply) -> None:
    now, waits = FAILED_AT, []
    for attempts in range(1, 100):
        verdict = judge(
            Kind.WEBHOOK, result, attempts=attempts, failed_at=FAILED_AT, now=now, jitter=0
        )
        if verdict.fate is Fate.GIVEN_UP:
            break
        waits.append(verdict.wait)
        now += verdict.wait
    minutes = [wait / timedelta(minutes=1) for wait in waits]
    assert minutes == [4, 15, 60, 180, 360, 720, 720, 720, 720, 720]
    assert timedelta(days=2.5) < now - FAILED_AT < timedelta(days=3)
    assert "after 11 attempts" in verdict.reason


def test_an_old_failure_that_was_hardly_tried_is_not_given_up() -> None:
    week_later = FAILED_AT + timedelta(days=7)
    fates = [
        judge(
            Kind.TEARDOWN,
            Answer(500, None),
            attempts=n,
            failed_at=FAILED_AT,
            now=week_later,
            jitter=0,
        ).fate
        for n in range(1, 6)
    ]
    assert fates == [Fate.OWED] * 4 + [Fate.GIVEN_UP]


@pytest.mark.parametrize(
    ("header", "wait"),
    [
        (None, 0),
        ("", 0),
        ("soon", 0),
        ("-5", 0),
        ("1.5", 0),
        ("0", 0),
        (" 120 ", 120),
        ("9" * 30, 86400),
        ("9" * 5000, 0),
        ("٣٠", 0),
        ("Wed, 15 Jan 2025 15:31:00 GMT", 60),
        ("Wed, 15 Jan 2025 15:31:00 -0000", 60),
        ("Wednesday, 15-Jan-25 15:31:00 GMT", 60),
        ("Wed Jan 15 15:31:00 2025", 60),
        ("Wed, 15 Jan 2025 15:29:00 GMT", 0),
        ("Wed, 15 Jan 2045 15:30:00 GMT", 86400),
        ("Wed, 99 Jan 2025 15:30:00 GMT", 0),
        ("Mon, 01 Jan 0001 00:00:00 +2359", 0),
    ],
)
def test_retry_after_is_read_in_both_forms_and_bounded(header: str | None, wait: int) -> None:
    assert retry_after(header, FAILED_AT) == timedelta(seconds=wait)


@given(st.text(max_size=60))
def test_no_header_breaks_it(header: str) -> None:
    assert timedelta(0) <= retry_after(header, FAILED_AT) <= timedelta(hours=24)
