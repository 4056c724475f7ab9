"""3. The run: a sweep against an empty flow with as many task runs; 4. its growth with the sites.

Both run on the same server, in this process and through a worker.
"""

import subprocess
import sys
from statistics import median
from typing import Any
from uuid import uuid4

import psycopg
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State

from deployments.postgres import LocalPostgres
from flows.reap_stuck_provisions import reap_stuck_provisions
from tests.benchmarks.data import add_stuck, drop, filled
from tests.benchmarks.empty import empty_flow
from tests.benchmarks.figures import Figure, medians
from tests.benchmarks.server import through_the_worker
from tests.benchmarks.traced import traced_flow

ROUNDS = 9
TASKS_OF_AN_EMPTY_SWEEP = 3
TASKS_OF_A_SITE = 2

LISTED = """
INSERT INTO sweep_refusals (flow_run_id, cap, threshold, stands, candidates)
SELECT %s, 25, interval '30 minutes', false, jsonb_agg(jsonb_build_object(
           'site_id', id, 'attempt', metadata #>> '{provision,started_at}'))
  FROM sites WHERE id >= %s
"""


async def run(url: str) -> list[Figure]:
    """The sweep ÷ the empty flow, empty and with 25 sites, in process and through the worker."""
    figures = []
    first = 1_000_000
    for reaped in (0, 25):
        task_runs = TASKS_OF_AN_EMPTY_SWEEP + TASKS_OF_A_SITE * reaped

        def more_stuck(reaped: int = reaped) -> None:
            nonlocal first
            if reaped:
                add_stuck(url, first, reaped)
                first += reaped

        async def ours(reaped: int = reaped) -> None:
            state: State[Any] = await reap_stuck_provisions(
                max_reap_per_hour=100_000, return_state=True
            )
            assert state.name == ("Reaped" if reaped else "Clean"), state

        async def empty(task_runs: int = task_runs) -> None:
            await empty_flow(task_runs)

        async def traced(task_runs: int = task_runs, reaped: int = reaped) -> None:
            await traced_flow(task_runs, reaped)

        more_stuck()
        for action in (ours, empty, traced):
            await action()
        times = await medians(ROUNDS, ours, empty, traced, before=more_stuck)
        name = f"a sweep that reaps {reaped}" if reaped else "an empty sweep"
        figures += [
            Figure("run", f"{name}, in process", times[0], "s"),
            Figure("run", f"empty flow with {task_runs} task runs, in process", times[1], "s"),
            Figure("run", "the same with a sweep's names, lines, events and report", times[2], "s"),
            Figure("run", f"{name} ÷ empty flow, in process", times[0] / times[1], "times", 1.15),
            Figure("run", f"{name} ÷ the one with names and so on", times[0] / times[2], "times"),
        ]
    return figures + await _through_the_worker(url) + imports()


def without_stuck(url: str) -> str:
    """Let the sites that are in flight finish, so that a sweep finds what its benchmark adds."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            'UPDATE sites SET metadata = metadata || \'{"health_check": {"completed_at": 1}}\''
            " WHERE metadata #>> '{health_check,completed_at}' IS NULL"
        )
    return url


async def _through_the_worker(url: str) -> list[Figure]:
    sweep, empty = await through_the_worker(url, ROUNDS)
    return [
        Figure("run", "an empty sweep, through the worker", sweep, "s"),
        Figure("run", "empty flow with 3 task runs, through the worker", empty, "s"),
        Figure("run", "an empty sweep ÷ empty flow, worker", sweep / empty, "times", 1.15),
    ]


def imports() -> list[Figure]:
    """The import time of the flow beyond that of an empty flow with Prefect, in new processes."""
    code = (
        "import time; began = time.perf_counter()\n"
        "import prefect, prefect.flow_engine, prefect.task_engine, prefect.artifacts\n"
        "import tests.benchmarks.empty; empty = time.perf_counter()\n"
        f"import {OURS}; ours = time.perf_counter()\n"
        "print(empty - began, ours - empty)"
    )

    def taken() -> tuple[float, float]:
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
        )
        theirs, ours = (float(seconds) for seconds in done.stdout.split())
        return theirs, ours

    theirs, ours = zip(*(taken() for _ in range(15)), strict=True)
    return [
        Figure("run", "import of an empty flow", median(theirs), "s"),
        Figure("run", "import of the sweep beyond it", median(ours), "s", target=0.3),
    ]


OURS = "flows.reap_stuck_provisions"


async def growth(url: str) -> list[Figure]:
    """The time of one site in sweeps of 25, 250 and 2,500, approved as a refusal would be."""
    per_site = {}
    first = 2_000_000
    for number in (25, 250, 2_500):
        add_stuck(url, first, number)
        refusal = uuid4()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(LISTED, [refusal, first])
        first += number
        state: State[Any] = await reap_stuck_provisions(
            approve_refusal=str(refusal), return_state=True
        )
        assert f"{number:,} reaped" in str(state.message)
        async with get_client() as client:
            assert state.state_details.flow_run_id
            done = await client.read_flow_run(state.state_details.flow_run_id)
        per_site[number] = done.total_run_time.total_seconds() / number
    return [
        Figure("growth", f"a site in a sweep of {n:,}", seconds * 1e3, "ms")
        for n, seconds in per_site.items()
    ] + [
        Figure(
            "growth",
            f"a site of {n:,} ÷ a site of 25",
            per_site[n] / per_site[25],
            "times",
            target=1.2,
        )
        for n in (250, 2_500)
    ]


def memory(postgres: LocalPostgres, small: int, large: int) -> list[Figure]:
    """The peak memory of a process that looks at a small table and at a large one."""
    code = (
        "import asyncio, resource, sys; from datetime import timedelta\n"
        "from provisioning.database import database; from provisioning.sweep.snapshot import look\n"
        "async def main():\n"
        "    async with database(sys.argv[1]) as engine:\n"
        "        for _ in range(5): await look(engine, timedelta(minutes=30), 10000, writes=True)\n"
        "asyncio.run(main())\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    peak = {}
    for sites in (small, large):
        url = filled(postgres, f"bench_memory_{sites}", sites)
        done = subprocess.run(
            [sys.executable, "-c", code, url],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        peak[sites] = int(done.stdout) / 1024
        drop(postgres, url)
    return [
        *(Figure("growth", f"memory at {n:,} sites", peak[n], "MiB") for n in peak),
        Figure(
            "growth",
            f"memory at {large:,} ÷ at {small:,} sites",
            peak[large] / peak[small],
            "times",
            target=1.05,
        ),
    ]
