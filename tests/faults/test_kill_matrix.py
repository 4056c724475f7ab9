"""A sweep of six sites, a process of its own, killed with kill -9 at each boundary.

After each: the next sweep finishes the work without a person.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.commands import ROOT
from tests.faults.aftermath import SITES, Aftermath
from tests.flow.conftest import Sweep
from tests.flow.traces import message
from tests.outbox.receivers import Receiver
from tests.sites import Sites


class DyingSweeps:
    """Sweeps in processes of their own, each killed at the boundary that it is told."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    async def sweep(self, side: str, step: str, number: int) -> int:
        """The signal that ended the sweep; 0 where it ended by itself."""
        environment = {name: os.environ[name] for name in os.environ if name.startswith("PROV")}
        order = {"step": step, "side": side, "number": number, "environment": environment}
        return int(await asyncio.to_thread(self._ask, json.dumps(order)))

    def _ask(self, line: str) -> str:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()


@pytest.fixture(scope="module")
def dying(prefect_api: str) -> Iterator[DyingSweeps]:
    with subprocess.Popen(
        [sys.executable, str(ROOT / "tests/faults/dying_sweep.py")],
        env=os.environ | {"PYTHONPATH": str(ROOT), "PREFECT_API_URL": prefect_api},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        yield DyingSweeps(process)
        assert process.stdin
        process.stdin.close()


BOTH = ("before", "after")
LAST = SITES[-1]

# After a mark's statement is before the next refresh, so a refresh has a boundary of its own behind
# it. Notices are claimed and sent side by side.
BOUNDARIES = [
    *[(side, step, 1) for step in ("query", "cap check") for side in BOTH],
    ("before", "refresh", 1),
    *[("after", "refresh", number) for number in SITES],
    *[(side, "mark's statement", number) for number in SITES for side in BOTH],
    *[(side, "claim", number) for number in (1, LAST) for side in BOTH],
    *[(side, "send", number) for number in SITES for side in BOTH],
    *[(side, "recorded delivery", number) for number in SITES for side in BOTH],
    *[(side, "report", 1) for side in BOTH],
]

QUICK = [
    ("after", "query", 1),
    ("after", "cap check", 1),
    ("after", "refresh", 1),
    ("before", "mark's statement", LAST),
    ("after", "mark's statement", 1),
    ("after", "claim", 1),
    ("after", "send", 1),
    ("before", "recorded delivery", LAST),
    ("after", "report", 1),
]
"""One boundary of each kind, for `make test`. The others are long."""


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("side", "step", "number"),
    [
        boundary if boundary in QUICK else pytest.param(*boundary, marks=pytest.mark.long)
        for boundary in BOUNDARIES
    ],
    ids=[f"{side} {step} {number}" for side, step, number in BOUNDARIES],
)
@pytest.mark.guarantee(
    fault=(
        "a sweep killed with kill -9 at each boundary: query, cap check, each refresh, each "
        "mark's statement, claims, each send, each recorded delivery, report"
    ),
    holds=(
        "the next sweep finishes: one ledger row a site, each merchant told at least once "
        "and with one id, no site completed and failed"
    ),
)
async def test_the_next_sweep_finishes_what_a_killed_one_left(
    dying: DyingSweeps, aftermath: Aftermath, sweep: Sweep, side: str, step: str, number: int
) -> None:
    assert await dying.sweep(side, step, number) == signal.SIGKILL
    await aftermath.leases_run_out()
    state = await sweep()
    assert state.name in ("Reaped", "Clean"), message(state)
    await aftermath.all_is_well()
    assert len(aftermath.merchant.requests) <= 2 * len(SITES)


@pytest.mark.guarantee(
    fault="a sender killed while it holds a notice",
    holds="the notice is free again after at most a minute, and no sweep waits for it",
)
async def test_a_lease_of_a_killed_sender_runs_out_by_itself(
    dying: DyingSweeps, aftermath: Aftermath, sweep: Sweep, sites: Sites
) -> None:
    """Before that the next sweep leaves the notice alone, and ends green all the same."""
    assert await dying.sweep("after", "claim", LAST) == signal.SIGKILL
    assert (await sweep()).name == "Clean"
    owed = "SELECT next_attempt_at - now() AS wait FROM notices WHERE delivered_at IS NULL"
    waits = [row.wait.total_seconds() for row in await sites.rows(owed)]
    assert waits
    assert all(0 < wait <= 60 for wait in waits)


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.guarantee(
    fault="a sweep killed while it records a refusal",
    holds="the next one refuses again, and nothing is reaped",
)
async def test_a_refusal_killed_at_its_record_is_refused_again(
    dying: DyingSweeps, sweep: Sweep, sites: Sites, merchant: Receiver, side: str
) -> None:
    await sites.add_many(26)
    assert await dying.sweep(side, "refusal's record", 1) == signal.SIGKILL
    assert (await sweep()).name == "Refused"
    assert await sites.failed() == await sites.ledger() == []
    records: list[Any] = await sites.rows("SELECT flow_run_id FROM sweep_refusals")
    assert len(records) == (1 if side == "before" else 2)
