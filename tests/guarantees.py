"""Writes tests/README.md from the tests' own marks: `python -m tests.guarantees`.

A test that holds a guarantee says so: `@pytest.mark.guarantee(fault=..., holds=..., guard=...)`,
where `guard` tells how the test was seen to fail with the guard removed.
"""

import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "tests" / "README.md"
MARK = "guarantee"
FOLDERS = [
    "faults",
    "storms",
    "database",
    "flow",
    "outbox",
    "chain",
    "operations",
    "automations",
    "browser",
]

HEAD = """\
# What is guaranteed, and which test holds it

Written by `python -m tests.guarantees` from the marks of the tests; do not edit. A test fails when
this page and the marks differ. "Seen" tells how the test failed when its guard was taken out of a
copy of the program.

| | |
|---|---|
| the unit and the database tests, while you write | `make check` |
| all but those that say (long) | `make test` |
| those, and the heart of the others on a second table: CI runs it after `make test` | `make soak` |
| the races for as long as you like | `python -m tests.faults.soak --attempts 200000` |
| known vulnerabilities of what is locked | `make audit` |

"""


@dataclass(frozen=True)
class Guarantee:
    """One row of the table."""

    fault: str
    holds: str
    guard: str
    test: str
    long: bool = field(compare=False)


class Collector:
    """A pytest plugin that keeps the marks of what it collects."""

    def __init__(self) -> None:
        self.found: list[Guarantee] = []

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in sorted(items, key=_long):  # one that is not long in all its cases is not
            name = f"{item.path.relative_to(ROOT)}::{getattr(item, 'originalname', item.name)}"
            for mark in item.iter_markers(MARK):
                guarantee = Guarantee(**{"guard": "", **mark.kwargs}, test=name, long=_long(item))
                if guarantee not in self.found:
                    self.found.append(guarantee)


def collect() -> list[Guarantee]:
    """The marks of all tests, in the order of the folders and then of the files."""
    collector = Collector()
    options = ["--collect-only", "-qq", "--no-header", "-m", "long or not long"]
    status = pytest.main([*options, str(ROOT / "tests")], [collector])
    if status is not pytest.ExitCode.OK:
        raise SystemExit(f"The tests could not be collected: {status!r}")
    return sorted(collector.found, key=_place)


def _long(item: pytest.Item) -> bool:
    return item.get_closest_marker("long") is not None


def _place(guarantee: Guarantee) -> tuple[int, str]:
    path = guarantee.test.split("::")[0]
    folder = path.split("/")[1]
    return FOLDERS.index(folder) if folder in FOLDERS else len(FOLDERS), path


def page(guarantees: Iterable[Guarantee]) -> str:
    """The whole of tests/README.md."""
    rows = ["| fault | guarantee | test | seen |", "|---|---|---|---|"]
    for each in guarantees:
        path, name = each.test.split("::")
        place = f"[`{name}`]({path.removeprefix('tests/')})"
        cells = [each.fault, each.holds, place + " (long)" * each.long, each.guard]
        rows.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return HEAD + "\n".join(rows) + "\n"


def generated() -> str:
    """The page, made in a process of its own, since pytest can't run inside of itself."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.guarantees", "--print"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.partition(HEAD[:20])[1] + done.stdout.partition(HEAD[:20])[2]


def main() -> None:
    text = page(collect())
    if "--print" in sys.argv:
        print(text, end="")
    else:
        PAGE.write_text(text)


if __name__ == "__main__":
    main()
