"""Run the benchmarks: `make bench`, or `python -m tests.benchmarks --help`."""

import argparse
import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from deployments.postgres import LocalPostgres, local_postgres
from provisioning.settings import settings
from tests.benchmarks import adopting, counted, price, query, runs, ways, write
from tests.benchmarks.data import drop, filled
from tests.benchmarks.figures import Figure, as_json, machine
from tests.commands import ROOT
from tests.conftest import prefect_server

BENCHMARKS = ("query", "write", "ways", "run", "growth", "counted", "price", "adopting")


def main() -> int:
    """Measure, print a table, and leave the figures as JSON; 1 where a target was missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--only", choices=BENCHMARKS, nargs="+", default=BENCHMARKS)
    parser.add_argument("--ten-million", action="store_true", help="the query at 10 million too")
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "benchmarks.json")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="reaper-bench-", ignore_cleanup_errors=True) as folder,
        local_postgres(Path(folder)) as postgres,
    ):
        figures = measure(postgres, options.only, ten_million=options.ten_million)
    show(figures)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(as_json(figures), indent=1, ensure_ascii=False) + "\n")
    options.json.with_suffix(".md").write_text(as_page(figures))
    print(f"\nThe figures as JSON, and beside them as the table of the page: {options.json}")
    return int(any(figure.met is False for figure in figures))


def measure(postgres: LocalPostgres, only: tuple[str, ...], *, ten_million: bool) -> list[Figure]:
    """Run the benchmarks one after the other, so that none is another's noise."""
    figures: list[Figure] = []
    sizes = [10_000, 100_000, 1_000_000] + ([10_000_000] if ten_million else [])
    if "query" in only:
        figures += asyncio.run(query.run(postgres, sizes))
    if "write" in only:
        figures += asyncio.run(write.run(postgres))
    if "ways" in only:
        figures += ways.run(postgres)
    if "counted" in only:
        figures += counted.run()
    if "price" in only:
        figures += asyncio.run(price.run(postgres))
    if "adopting" in only:
        figures += asyncio.run(adopting.run(postgres, 2_000_000))
    if "growth" in only:
        figures += runs.memory(postgres, 10_000, 1_000_000)
    if {"run", "growth"} & set(only):
        figures += on_a_server(postgres, only)
    return sorted(figures, key=lambda figure: BENCHMARKS.index(figure.benchmark))


def on_a_server(postgres: LocalPostgres, only: tuple[str, ...]) -> list[Figure]:
    """The benchmarks that need a Prefect server."""
    figures: list[Figure] = []
    with prefect_server(postgres):
        url = filled(postgres, "bench_runs", 10_000)
        os.environ["PROVISION_DATABASE_URL"] = runs.without_stuck(url)
        settings.cache_clear()
        if "run" in only:
            figures += asyncio.run(runs.run(url))
        if "growth" in only:
            figures += asyncio.run(runs.growth(url))
        drop(postgres, url)
    return figures


def show(figures: list[Figure]) -> None:
    """The figures as a table."""
    table = Table("benchmark", "figure", "value", "unit", "target", "", title=machine())
    for figure in figures:
        table.add_row(
            figure.benchmark,
            figure.name,
            figure.shown_value,
            figure.unit,
            figure.shown_target,
            figure.verdict,
        )
    Console(width=None if sys.stdout.isatty() else 120).print(table)


def as_page(figures: list[Figure]) -> str:
    """The table of docs/benchmarks.md."""
    lines = ["| benchmark | figure | value | target | |", "|---|---|---|---|---|"]
    for figure in figures:
        lines.append(
            f"| {figure.benchmark} | {figure.name} | {figure.shown_value} {figure.unit} "
            f"| {figure.shown_target} | {figure.verdict} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
