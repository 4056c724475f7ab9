"""The pure parts of the contest: when a sweep is due, and what the rounds come to."""

import pytest

from tests.benchmarks.peers.rounds import PREPARES, Reading, Round, next_due
from tests.benchmarks.peers.standing import EVERY
from tests.benchmarks.peers.summary import figures

MIB = 1 << 20
FULL_HOUR = 1_796_256_000.0


def a_round(start: float, cpu: float, *, seconds: float | None = 2.0) -> Round:
    """A sweep measured for 60 seconds, in which the peer used 4 seconds of CPU time."""
    return Round(
        before=Reading(start, cpu, cpu / 10, 0),
        after=Reading(start + 60, cpu + 4, (cpu + 4) / 10, 0),
        seconds=seconds,
        standing={"server": 200 * MIB, "worker": 100 * MIB},
        peak=400 * MIB,
    )


def values(*rounds: Round) -> dict[str, float]:
    """The figures by name."""
    return {figure.name: figure.value for figure in figures("a peer", list(rounds))}


def test_each_peer_is_due_in_its_own_minute_and_there_is_time_to_prepare() -> None:
    for minute in range(5):
        for now in (FULL_HOUR, FULL_HOUR + 59.9, FULL_HOUR + 60 - PREPARES, FULL_HOUR + 299):
            due = next_due(minute, now)
            assert due % EVERY == minute * 60
            assert now + PREPARES < due <= now + PREPARES + EVERY


def test_what_a_peer_uses_at_rest_is_no_part_of_its_sweep() -> None:
    # At rest for 240 s with 2.4 s of CPU time: 0.6 of the 4 s of each round are not the sweep's.
    found = values(a_round(0, 0), a_round(300, 6.4), a_round(600, 12.8))
    assert found["CPU of a sweep"] == pytest.approx(3.4)
    assert found["CPU at rest, an hour"] == pytest.approx(36)
    assert found["PostgreSQL's time for a sweep"] == pytest.approx(0.34)
    assert found["CPU a day, 25 stuck every five minutes"] == pytest.approx(
        (24 * 36 + 288 * 3.4) / 60
    )


def test_the_memory_is_that_of_all_parts_and_of_each() -> None:
    found = values(a_round(0, 0), a_round(300, 6.4))
    assert found["standing memory"] == 300
    assert found["standing memory: worker"] == 100
    assert found["peak memory"] == 400


def test_a_peer_that_was_measured_once_has_no_figures() -> None:
    assert values(a_round(0, 0)) == {}


def test_a_sweep_that_did_not_do_it_in_its_minute_is_counted_and_lends_no_time() -> None:
    found = values(a_round(0, 0, seconds=None), a_round(300, 6.4), a_round(600, 12.8, seconds=3))
    assert found["from due to the last site failed"] == 2.5
    assert found["sweeps that did it in their minute"] == pytest.approx(200 / 3)
    never = values(a_round(0, 0, seconds=None), a_round(300, 6.4, seconds=None))
    assert never["sweeps that did it in their minute"] == 0
    assert "from due to the last site failed" not in never
