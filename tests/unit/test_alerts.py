"""An alert is for a situation: first, every six hours, over."""

from datetime import UTC, datetime, timedelta

import pytest

from provisioning.sweep.alerts import Alert, Moment, Told, Trouble, decide

START = datetime(2025, 1, 15, 14, 5, tzinfo=UTC)
INTERVAL = timedelta(minutes=5)


def history(
    endings: list[str], lost: frozenset[int] = frozenset()
) -> list[tuple[int, Trouble, Moment]]:
    """The alerts of sweeps that end like that, five minutes apart: which sweep sent which.

    Args:
        lost: the sweeps whose alerts the server lost.
    """
    told: dict[Trouble, Told] = {}
    sent = []
    for number, ended in enumerate(endings):
        now = START + number * INTERVAL
        for alert in decide(ended, told, now):
            sent.append((number, alert.trouble, alert.moment))
            if number not in lost:
                told[alert.trouble] = Told(now, alert.moment, alert.since)
    return sent


REFUSED, INCOMPLETE, FAILED = Trouble.REFUSED, Trouble.INCOMPLETE, Trouble.FAILED
FIRST, AGAIN, OVER = Moment.FIRST, Moment.AGAIN, Moment.OVER


@pytest.mark.guarantee(
    fault="a night of 144 refused sweeps (G30)",
    holds="an alert at the first, one every six hours and one at the end",
)
def test_a_night_of_refusals_is_told_at_the_first_every_six_hours_and_at_the_end() -> None:
    sent = history(["Clean", *["Refused"] * 144, "Reaped", "Clean"])
    assert sent == [(1, REFUSED, FIRST), (73, REFUSED, AGAIN), (145, REFUSED, OVER)]


def test_forty_refused_sweeps_are_one_alert_and_one_all_clear() -> None:
    assert history(["Refused"] * 40 + ["Clean"]) == [(0, REFUSED, FIRST), (40, REFUSED, OVER)]


@pytest.mark.parametrize("ended", ["Failed", "TimedOut", "Crashed", ""])
def test_whatever_is_no_verdict_means_that_the_sweep_could_not_look(ended: str) -> None:
    assert history([ended, ended, "Clean"]) == [(0, FAILED, FIRST), (2, FAILED, OVER)]


def test_a_second_kind_of_trouble_gets_an_alert_and_an_all_clear_of_its_own() -> None:
    assert history(["Refused", "Failed", "Refused", "Clean"]) == [
        (0, REFUSED, FIRST),
        (1, FAILED, FIRST),
        (2, FAILED, OVER),
        (3, REFUSED, OVER),
    ]
    assert history(["Incomplete", "Refused", "Incomplete", "Reaped"]) == [
        (0, INCOMPLETE, FIRST),
        (1, REFUSED, FIRST),
        (2, REFUSED, OVER),
        (3, INCOMPLETE, OVER),
    ]


def test_a_second_situation_of_a_kind_is_told_again_at_once() -> None:
    assert history(["Failed", "Clean", "Failed"]) == [
        (0, FAILED, FIRST),
        (1, FAILED, OVER),
        (2, FAILED, FIRST),
    ]


def test_an_alert_that_was_lost_is_told_by_the_next_red_run() -> None:
    assert history(["Refused", "Refused", "Refused"], lost=frozenset({0})) == [
        (0, REFUSED, FIRST),
        (1, REFUSED, FIRST),
    ]
    assert history(["Refused", "Clean", "Clean"], lost=frozenset({1})) == [
        (0, REFUSED, FIRST),
        (1, REFUSED, OVER),
        (2, REFUSED, OVER),
    ]


def test_a_subject_says_the_kind_the_run_and_since_when() -> None:
    run = "sweep 2025-01-15 20:05 UTC"
    assert Alert(REFUSED, FIRST, START).subject(run) == f"Refused: {run}"
    assert (
        Alert(REFUSED, AGAIN, START).subject(run)
        == f"Still Refused, since 2025-01-15 14:05 UTC: {run}"
    )
    over = Alert(REFUSED, OVER, START).subject(run)
    assert over == f"Over: Refused since 2025-01-15 14:05 UTC. {run} ended otherwise"
