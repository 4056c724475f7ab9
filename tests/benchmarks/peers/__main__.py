"""Measure the same sweep by this program and by its peers: `make bench-peers`."""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import psycopg
from rich.console import Console
from rich.table import Table

from deployments.errors import StackError
from deployments.postgres import LocalPostgres, local_postgres
from deployments.processes import Service
from tests.benchmarks.data import filled
from tests.benchmarks.figures import Figure, as_json, machine
from tests.benchmarks.peers.environments import NotToBeHad, environment
from tests.benchmarks.peers.peers import PEERS, Peer
from tests.benchmarks.peers.rounds import Round, measure, next_due
from tests.benchmarks.peers.standing import Place
from tests.benchmarks.peers.summary import figures
from tests.commands import ROOT

SITES = 100_000
TEMPLATE = "peers_sites"


def main() -> int:
    """Measure, print a table, and leave the figures as JSON; 1 where ours could not be had."""
    names = [peer.name for peer in PEERS]
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.peers", description=__doc__)
    parser.add_argument("--only", choices=names, nargs="+", default=names)
    parser.add_argument("--rounds", type=int, default=3, help="sweeps of each, at least 2")
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "peers.json")
    options = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):  # either one must end what is started here
        signal.signal(number, signal.default_int_handler)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # what runs all day is compiled once
    build: Path = options.json.parent
    build.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="reaper-peers-", ignore_cleanup_errors=True) as folder,
        tempfile.TemporaryDirectory(prefix="reaper-bench-", ignore_cleanup_errors=True) as data,
        local_postgres(Path(data)) as postgres,
        ExitStack() as running,
    ):
        filled(postgres, TEMPLATE, SITES)
        contest = Contest(postgres, Path(folder), build / "peers", running)
        for peer in PEERS:
            if peer.name in options.only:
                contest.start(peer)
        before = os.getloadavg()
        contest.measure(options.rounds)
        load = {"before": before, "after": os.getloadavg()}
    measured = [
        figure for peer in PEERS for figure in figures(peer.name, contest.rounds.get(peer.name, []))
    ]
    show(measured, contest.missing)
    about = {"rounds": options.rounds, "load": load, "missing": contest.missing}
    pins = {peer.name: peer.pins for peer in PEERS}
    page = as_json(measured) | about | {"pins": pins}
    options.json.write_text(json.dumps(page, indent=1, ensure_ascii=False) + "\n")
    print(f"\nThe figures as JSON: {options.json}")
    return int("ours" in contest.missing)


class Contest:
    """The peers that could be started, all of them at once, and what was measured of each.

    Each has sites of its own and a minute of its own in five, so that what else happens on the
    machine meets all of them alike.
    """

    def __init__(
        self, postgres: LocalPostgres, folder: Path, environments: Path, running: ExitStack
    ) -> None:
        self.postgres, self.folder, self.environments = postgres, folder, environments
        self.running = running
        self.started: dict[str, tuple[Place, list[Service]]] = {}
        self.missing: dict[str, str] = {}
        self.rounds: dict[str, list[Round]] = {}

    def start(self, peer: Peer) -> None:
        """Install and start it, or note in a word why not."""
        minute = PEERS.index(peer)
        folder = self.folder / f"{minute}"
        folder.mkdir()
        print(f"Starting {peer.name}", flush=True)
        try:
            commands = (
                Path(sys.executable).parent
                if peer.pins is None
                else environment(self.environments / peer.name.replace(" ", "-"), peer.pins)
            )
            place = Place(self.postgres, commands, folder, peer.name.split()[0].lower(), minute)
            self._copy_sites(place)
            self.started[peer.name] = place, self.running.enter_context(peer.start(place))
        except (NotToBeHad, StackError) as error:
            self._miss(peer.name, str(error))

    def measure(self, rounds: int) -> None:
        """One round that does not count, since first starts cost more, and then those that do."""
        now = time.time()
        order = sorted(self.started, key=lambda name: next_due(self.started[name][0].minute, now))
        for number in range(rounds + 1):
            for name in [name for name in order if name in self.started]:
                place, parts = self.started[name]
                try:
                    one = measure(place, parts, next_due(place.minute, time.time()))
                except StackError as error:
                    del self.started[name]
                    self._miss(name, str(error))
                    continue
                print(f"{name}, round {number}: {one.seconds} s", flush=True)
                if number:
                    self.rounds.setdefault(name, []).append(one)

    def _copy_sites(self, place: Place) -> None:
        with psycopg.connect(self.postgres.url(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {place.databases[0]} TEMPLATE {TEMPLATE}")

    def _miss(self, name: str, why: str) -> None:
        print(f"Not measured: {name}: {why}", flush=True)
        self.missing[name] = why


def show(measured: list[Figure], missing: dict[str, str]) -> None:
    """The figures as a table, a column for each peer."""
    peers = [peer for peer in PEERS if any(figure.benchmark == peer.name for figure in measured)]
    table = Table("", *(peer.name for peer in peers), title=machine())
    values = {
        (figure.name, figure.benchmark): f"{figure.shown_value} {figure.unit}"
        for figure in measured
    }
    for name in dict.fromkeys(figure.name for figure in measured):
        table.add_row(name, *(values.get((name, peer.name), "") for peer in peers))
    table.add_row("an operator sees", *(peer.shows for peer in peers))
    Console(width=None if sys.stdout.isatty() else 140).print(table)
    for name, why in missing.items():
        print(f"Not measured: {name}: {why}")


if __name__ == "__main__":
    sys.exit(main())
