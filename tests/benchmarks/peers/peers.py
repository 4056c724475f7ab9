"""The peers: what each is, with the versions that it is measured with."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from deployments.processes import Service
from tests.benchmarks.peers import standing
from tests.benchmarks.peers.standing import Place

PSYCOPG = "psycopg[binary]==3.3.9"
DAGSTER = (
    *("dagster==1.13.27", "dagster-postgres==0.29.27", "dagster-webserver==1.13.27"),
    "sqlalchemy==2.0.58",  # with 2.1 the same URL means psycopg 3, which its NOTIFY does not know
    PSYCOPG,
)


@dataclass(frozen=True)
class Peer:
    """One way to run the sweep every five minutes.

    Attributes:
        pins: the packages of its environment; None for ours, which runs in this one.
        start: runs what must run all day, and gives its parts.
        shows: what an operator sees of a sweep.
    """

    name: str
    pins: tuple[str, ...] | None
    start: Callable[[Place], AbstractContextManager[list[Service]]]
    shows: str


PEERS = (
    Peer(
        "ours",
        None,
        standing.ours,
        "a page for each run, its verdict as its state, a task run and a log line for each site, "
        "a report, alerts",
    ),
    Peer(
        "script and cron",
        (PSYCOPG,),
        standing.script,
        "lines in a log file; nothing where cron did not run",
    ),
    Peer(
        "Dagster",
        DAGSTER,
        standing.dagster,
        "a page for each run, with one step, its events and its log; the schedule's ticks",
    ),
    Peer(
        "Airflow",
        ("apache-airflow==3.3.2", "apache-airflow-providers-postgres==7.1.1", PSYCOPG),
        standing.airflow,
        "a page for each run, with one task and its log; a grid of past runs",
    ),
    Peer(
        "procrastinate",
        ("procrastinate==3.10.0", PSYCOPG),
        standing.procrastinate,
        "a row for each run in a table, and lines in the worker's log; no page",
    ),
)
