"""One sweep of one peer, measured: from before it is due until its processes have ended."""

import time
from dataclasses import dataclass
from itertools import count

import psycopg

from deployments.processes import Service
from tests.benchmarks.data import add_stuck
from tests.benchmarks.peers.family import cpu_seconds, machine_cpu_seconds, pss
from tests.benchmarks.peers.standing import EVERY, Place
from tests.benchmarks.runs import without_stuck

SITES = 25
PREPARES, BEFORE, AFTER = 14, 12, 42
"""Seconds before the due time at which the sites are added and the measuring begins, and after it
at which it ends. Prefect's worker starts the process of a run ten seconds before it is due."""

_ids = count(3_000_000_000, 1_000)

DONE = """
SELECT count(*), extract(epoch FROM max(failed_at))::float8
  FROM sites JOIN terminal_failures ON site_id = sites.id::text
 WHERE sites.id BETWEEN %s AND %s AND metadata ? 'terminal_failure'
"""

A_NEW_HOUR = "UPDATE terminal_failures SET failed_at = failed_at - interval '2 hours'"
"""What was failed before counts in no hourly cap."""

WORKED = """
SELECT coalesce(sum(active_time), 0) / 1000 FROM pg_stat_database WHERE datname = ANY(%s)
"""


@dataclass(frozen=True)
class Reading:
    """Seconds so far, at a moment.

    Attributes:
        at: by the clock.
        cpu: the peer's CPU time.
        postgres: the time in which PostgreSQL executed statements for the peer.
        machine: the CPU time of everything on this machine.
    """

    at: float
    cpu: float
    postgres: float
    machine: float


@dataclass(frozen=True)
class Round:
    """One sweep.

    Attributes:
        seconds: from due to the last site failed; None where the end came first.
        standing: memory of each part before the sweep, in bytes.
        peak: the most memory of all parts together, in bytes.
    """

    before: Reading
    after: Reading
    seconds: float | None
    standing: dict[str, int]
    peak: int


def next_due(minute: int, now: float) -> float:
    """The next due time of a peer that leaves time to prepare it."""
    earliest = now + PREPARES - 60 * minute
    return earliest - earliest % EVERY + EVERY + 60 * minute


def measure(place: Place, standing: list[Service], due: float) -> Round:
    """Add 25 stuck sites shortly before the due time, and watch what becomes of them.

    Raises:
        StackError: one of the peer's processes ended.
    """
    _sleep_until(due - PREPARES)
    for part in standing:
        part.check()
    first = next(_ids)
    with psycopg.connect(without_stuck(place.sites), autocommit=True) as connection:
        connection.execute(A_NEW_HOUR)
        add_stuck(place.sites, first, SITES)
        _sleep_until(due - BEFORE)
        roots = [part.process.pid for part in standing]
        at_rest = {part.name: pss([part.process.pid]) for part in standing}
        before = _reading(connection, place, roots)
        peak = _peak(roots, until=due + AFTER)
        after = _reading(connection, place, roots)
        done = connection.execute(DONE, [first, first + SITES - 1]).fetchone()
    seconds = done[1] - due if done and done[0] == SITES else None
    return Round(before, after, seconds, at_rest, max(peak, sum(at_rest.values())))


def _peak(roots: list[int], until: float) -> int:
    """The most memory that was seen, by a watcher that works a tenth of the time at most."""
    most = 0
    while time.time() < until:
        started = time.perf_counter()
        most = max(most, pss(roots))
        time.sleep(max(0.02, 9 * (time.perf_counter() - started)))
    return most


def _reading(
    connection: psycopg.Connection[tuple[float, ...]], place: Place, roots: list[int]
) -> Reading:
    worked = connection.execute(WORKED, [place.databases]).fetchone()
    assert worked
    return Reading(time.time(), cpu_seconds(roots), worked[0], machine_cpu_seconds())


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.time()))
