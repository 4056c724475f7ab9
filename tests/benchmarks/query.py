"""1. The query: flat from ten thousand sites to ten million."""

import json
from statistics import median
from typing import Any

import psycopg
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from deployments.postgres import LocalPostgres
from provisioning.sweep.queries import stuck_query
from tests.benchmarks.data import drop, filled
from tests.benchmarks.figures import Figure

LITERAL = """
SELECT id, domain, metadata FROM sites
 WHERE metadata -> 'provision' ->> 'started_at' IS NOT NULL
   AND metadata ->> 'terminal_failure' IS NULL
   AND metadata -> 'health_check' ->> 'completed_at' IS NULL
   AND metadata -> 'provision' ->> 'started_at'
       < to_char(now() AT TIME ZONE 'UTC' - interval '30 minutes', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
"""
"""The query as one would first write it: the original design's, without an index."""

NAME = "query"


async def run(postgres: LocalPostgres, sites: list[int]) -> list[Figure]:
    """Time and buffers of ours against the literal query, at each size."""
    figures: list[Figure] = []
    ours_at: dict[int, float] = {}
    for size in sites:
        url = filled(postgres, f"bench_query_{size}", size)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("SET max_parallel_workers_per_gather = 0")
            connection.execute(_prepared())
            ours, buffers = measure(connection, "EXECUTE sweep", rounds=101)
            literal, literal_buffers = measure(connection, LITERAL, rounds=5)
        drop(postgres, url)
        ours_at[size] = ours
        at = f"at {size:,} sites"
        figures += [
            Figure(NAME, f"ours {at}", ours, "ms"),
            Figure(NAME, f"buffers of ours {at}", buffers, "buffers", target=20),
            Figure(NAME, f"literal {at}", literal, "ms"),
            Figure(NAME, f"buffers of the literal {at}", literal_buffers, "buffers"),
            Figure(
                NAME,
                f"literal ÷ ours {at}",
                literal / ours,
                "times",
                target=1_000 if size >= 1_000_000 else None,
                at_least=True,
            ),
        ]
    for size in sites[1:]:
        growth = ours_at[size] / ours_at[sites[0]]
        target = 1.5 if size >= 1_000_000 else None
        name = f"ours at {size:,} ÷ ours at {sites[0]:,}"
        figures.append(Figure(NAME, name, growth, "times", target=target))
    return figures


def measure(connection: psycopg.Connection[Any], statement: str, rounds: int) -> tuple[float, int]:
    """The median execution time in milliseconds and the buffers of the last execution, warm."""
    explain = f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) {statement}"
    times, buffers = [], 0
    for _ in range(rounds + 2):
        row = connection.execute(explain).fetchone()
        assert row
        plan = row[0][0] if isinstance(row[0], list) else json.loads(row[0])[0]
        times.append(plan["Execution Time"])
        buffers = plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"]
    return median(times[2:]), buffers


def _prepared() -> str:
    dialect = PGDialect_psycopg(paramstyle="numeric_dollar")  # type: ignore[no-untyped-call]
    query = stuck_query().compile(dialect=dialect)
    values = query.params | {"threshold": "30 min", "limit": 10_000}
    statement = str(query)
    for number, name in reversed(list(enumerate(query.positiontup or [], start=1))):
        value = f"'{values[name]}'" if isinstance(values[name], str) else str(values[name])
        statement = statement.replace(f"${number}", value)
    return f"PREPARE sweep AS {statement}"
