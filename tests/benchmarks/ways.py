"""A reaped site's database time on each way to a platform's table, against the plain one."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from statistics import median

import psycopg

from deployments.postgres import LocalPostgres
from tests import second_table
from tests.benchmarks.data import drop, filled
from tests.benchmarks.figures import Figure
from tests.commands import ROOT, migrate
from tests.pooler.bouncer import bouncer

NAME = "ways"
SITES, ROUNDS = 25, 41
MOST = 1.2

FILL = """
INSERT INTO usual.sites SELECT gen_random_uuid(), 'shop-' || i || '.example',
    '{"provision": {"started_at": "2026-01-15T14:00:00Z", "step": "done"},
      "health_check": {"completed_at": "2026-01-15T14:05:00Z"}}'
  FROM generate_series(1, 10000) AS i
"""


def run(postgres: LocalPostgres) -> list[Figure]:
    """25 sites, each looked at, failed and looked at again, on all the ways in turns."""
    plain = filled(postgres, "bench_plain", 10_000)
    mapped = _mapped(postgres)
    pooled = {"PROVISION_DATABASE_POOLED": "true"}
    with bouncer(postgres, "transaction") as pooler, ExitStack() as reapers:
        ways = {
            "plain": {"PROVISION_DATABASE_URL": plain},
            "mapped": {"PROVISION_DATABASE_URL": mapped} | second_table.NAMES,
            "bounded": {"PROVISION_DATABASE_URL": plain} | pooled,
            "pooled": {"PROVISION_DATABASE_URL": pooler.beside(plain)} | pooled,
        }
        running = {
            way: reapers.enter_context(_reaper(names, 3_000_000_000 + number * 1_000_000))
            for number, (way, names) in enumerate(ways.items())
        }
        times: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(ROUNDS):
            for way, reaper in running.items():
                times[way].append(_a_round(reaper))
    for url in (plain, mapped):
        drop(postgres, url)
    taken = {way: median(times[way]) for way in ways}

    def against(way: str) -> float:
        return taken[way] / taken["plain"]

    return [
        Figure(NAME, "a reaped site's database time", taken["plain"] / SITES * 1e3, "ms"),
        Figure(NAME, "with other names and uuids ÷ plain", against("mapped"), "times", MOST),
        Figure(NAME, "with its bounds in each statement ÷ plain", against("bounded"), "times"),
        Figure(NAME, "through PgBouncer ÷ plain", against("pooled"), "times", MOST),
    ]


def _mapped(postgres: LocalPostgres) -> str:
    """The URL of a database with as many sites in the second table of the tests."""
    postgres.ensure_database("bench_mapped")
    url = postgres.url("bench_mapped")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(second_table.DDL.encode())
    migrate(url, **second_table.NAMES)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(FILL)
        connection.execute("VACUUM (ANALYZE)")
        connection.execute("CHECKPOINT")
    return url


@contextmanager
def _reaper(names: dict[str, str], first: int) -> Iterator["subprocess.Popen[str]"]:
    """A process of its own, since a process reads the platform's names once."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.benchmarks.reaper", str(SITES), str(first)],
        cwd=ROOT,
        env=os.environ | names,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as reaper:
        try:
            for _ in range(2):
                _a_round(reaper)
            yield reaper
        finally:
            reaper.kill()


def _a_round(reaper: "subprocess.Popen[str]") -> float:
    """The seconds that it took for one round."""
    assert reaper.stdin
    assert reaper.stdout
    reaper.stdin.write("\n")
    reaper.stdin.flush()
    return float(reaper.stdout.readline())
