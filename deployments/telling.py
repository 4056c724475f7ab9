"""What `make run` says once it runs, and what it asks."""

from __future__ import annotations

import sys
import time
from datetime import datetime
from pathlib import Path

import httpx
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import FlowRun

from deployments import sweeps
from deployments.options import Options
from deployments.terminal import say, show
from flows.ui.links import run_page


def tell_first(client: SyncPrefectClient, sweep: FlowRun, data: Path) -> None:
    """How the first sweep ended, with its report and the addresses."""
    assert sweep.state
    say(f"\nThe first sweep ended {sweep.state.name}.\n")
    show(sweeps.read_report(client, sweep) or f"{sweep.state.message}")
    ui = sweeps.ui_url(client)
    say(f"\nThe Prefect UI:  {ui}")
    say(f"This sweep:      {ui}{run_page(sweep.id)}")
    say(f"Data and logs:   {data}")


def reaps_after_a_yes(client: SyncPrefectClient) -> bool:
    """Wakes the schedule after a yes; without a terminal, or after a no, it stays paused."""
    say("\nNothing was changed. A sweep would do what the report above says, every five minutes.")
    if sys.stdin.isatty() and input("Reap now, and go on? [y/N] ").strip().lower() in ("y", "yes"):
        sweeps.set_schedule(client, active=True)
        return True
    say(
        "The schedule is paused, so nothing is reaped. To sweep: "
        'make run OPTIONS="--reap", or wake the schedule in the UI.'
    )
    return False


def tell_end(options: Options, *, sweeping: bool) -> None:
    """What stays behind on a server of the caller's, and how to stop."""
    if options.api_url:
        say(
            "On your Prefect server stay, when this ends: the work pool "
            f"{sweeps.WORK_POOL!r}, the deployments of prefect.yaml with their schedules, and the "
            "automations."
        )
    sweeps_now = "Sweeping every five minutes. " if sweeping else ""
    say(f"\n{sweeps_now}Ctrl-C stops everything that was started here.\n")


def tell_later(client: SyncPrefectClient, first: FlowRun, check: sweeps.Check) -> None:
    """One line a sweep, and one when the server falls silent, until interrupted."""
    told = {first.id}
    silent = False
    while True:
        check()
        time.sleep(3)
        try:
            ended = sweeps.ended_since(client, first.end_time)
        except httpx.HTTPError as error:
            if not silent:
                say(f"{datetime.now():%H:%M:%S}  The Prefect server does not answer: {error}")
            silent = True
            continue
        silent = False
        for sweep in ended:
            if sweep.id not in told and sweep.end_time:
                told.add(sweep.id)
                say(f"{sweep.end_time.astimezone():%H:%M:%S}  {sweep.name}  {_outcome(sweep)}")


def _outcome(sweep: FlowRun) -> str:
    assert sweep.state
    return f"{sweep.state.name}: {sweep.state.message}"
