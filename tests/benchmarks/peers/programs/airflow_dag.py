"""The sweep as an Airflow DAG of one task, on a schedule."""

import os
from datetime import UTC, datetime

from airflow.sdk import dag, task

from tests.benchmarks.peers.programs.one_sweep import sweep


@task
def reap() -> int:
    """One sweep."""
    return sweep(os.environ["SITES_URL"])


@dag(
    schedule=os.environ["SCHEDULE"],
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    is_paused_upon_creation=False,
)
def reap_stuck_provisions() -> None:
    """The DAG that the schedule starts."""
    reap()


reap_stuck_provisions()
