"""`site`: all that is known of one site: its stamps, its attempts in the ledger, its notices."""

import os
from collections.abc import Iterable
from typing import Annotated, Any
from uuid import UUID

import typer
from rich.table import Table
from sqlalchemy import Select, Text, cast, func, select
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.cli.app import WRONG, AsJson, app, console, errors, platform, print_json, run
from provisioning.database import autocommit
from provisioning.schema import DOMAIN, notices, row_of, sites, terminal_failures
from provisioning.site_state import row_at
from provisioning.stamps import COMPLETED, DEADLINE, FAILED, HOLD, STARTED, STEP
from provisioning.text import one_line

ENTRIES = 100
"""The most failed attempts of a site that are shown, the newest."""

LONGEST = 300
"""Characters of a value that are shown."""


@app.command()
def site(
    site_id: Annotated[str, typer.Argument(metavar="ID", help="The id, as the table has it.")],
    as_json: AsJson = False,
) -> None:
    """Show one site: its stamps now, its failed attempts, what is owed for them, the runs."""

    async def show() -> int:
        async with platform() as (engine, _):
            now = await _stamps(engine, site_id)
            # By the spelling of the database: a uuid has several.
            ledger = await _ledger(engine, now["id"] if now else site_id)
        if now is None and not ledger:
            errors.print(f"There is no site {one_line(site_id)}, and none was ever failed.")
            return WRONG
        if as_json:
            print_json({"site_id": site_id, "stamps": now, "failures": ledger})
        else:
            _show(site_id, now, ledger)
        return 0

    run(show)


async def _stamps(engine: AsyncEngine, site_id: str) -> dict[str, Any] | None:
    stamps = {
        "started_at": STARTED,
        "step": STEP,
        "deadline": DEADLINE,
        "hold": HOLD,
        "completed_at": COMPLETED,
        "terminal_failure": FAILED,
    }
    query = select(
        cast(sites.c.id, Text).label("id"),
        func.left(DOMAIN, 253).label("domain"),
        *(func.left(stamp, LONGEST).label(name) for name, stamp in stamps.items()),
    ).where(row_of(site_id))
    async with autocommit(engine) as connection:
        row = await row_at(connection, site_id, query)
    return dict(row._mapping) if row else None


async def _ledger(engine: AsyncEngine, site_id: str) -> list[dict[str, Any]]:
    """The failed attempts, the newest first, each with its notices and the page of its run."""
    entries = (
        select(terminal_failures)
        .where(terminal_failures.c.site_id == site_id)
        .order_by(terminal_failures.c.failed_at.desc())
        .limit(ENTRIES)
    )
    async with autocommit(engine) as connection:
        failures = [dict(row._mapping) for row in await connection.execute(entries)]
        told = [
            dict(row._mapping)
            for row in await connection.execute(_told(failure["id"] for failure in failures))
        ]
    for failure in failures:
        failure["run"] = _page(failure["flow_run_id"])
        failure["notices"] = [notice for notice in told if notice["failure_id"] == failure["id"]]
    return failures


def _told(failures: Iterable[UUID]) -> Select[Any]:
    """The notices of those failures, without what is secret in them."""
    return (
        select(
            *(notices.c.id, notices.c.failure_id, notices.c.kind, notices.c.receiver),
            *(notices.c.attempts, notices.c.next_attempt_at, notices.c.delivered_at),
            *(notices.c.given_up_at, notices.c.acknowledged_at),
            func.left(notices.c.last_error, LONGEST).label("last_error"),
        )
        .where(notices.c.failure_id.in_(list(failures)))
        .order_by(notices.c.kind)
    )


def _page(flow_run_id: object) -> str | None:
    """The run's page, where this shell knows the address of the UI."""
    ui = os.environ.get("PREFECT_UI_URL", "").rstrip("/")
    return f"{ui}/v2/runs/flow-run/{flow_run_id}" if ui and flow_run_id else None


def _show(site_id: str, now: dict[str, Any] | None, ledger: list[dict[str, Any]]) -> None:
    stamps = Table(box=None, show_header=False, pad_edge=False)
    for name, value in (now or {"row": "deleted"}).items():
        stamps.add_row(name, one_line(value, LONGEST) or "–")
    console.print(f"Site {one_line(site_id)}")
    console.print(stamps)
    for failure in ledger:
        console.print(
            f"\nFailed {failure['failed_at']:%Y-%m-%d %H:%M:%S} UTC by {failure['source']}: "
            f"{one_line(failure['reason'], LONGEST)}"
        )
        console.print(f"  attempt {one_line(failure['attempt'])}")
        console.print(f"  run     {failure['run'] or failure['flow_run_id'] or '–'}")
        if failure.get("detail"):
            console.print(f"  detail  {one_line(failure['detail'], LONGEST)}")
        for notice in failure["notices"]:
            console.print(f"  {_in_words(notice)}")


def _in_words(notice: dict[str, Any]) -> str:
    if notice["delivered_at"]:
        how = f"delivered {notice['delivered_at']:%Y-%m-%d %H:%M} UTC"
    elif notice["given_up_at"]:
        how = f"given up {notice['given_up_at']:%Y-%m-%d %H:%M} UTC" + (
            ", acknowledged" if notice["acknowledged_at"] else ""
        )
    else:
        how = f"owed, next try {notice['next_attempt_at']:%Y-%m-%d %H:%M} UTC"
    error = f": {one_line(notice['last_error'], 200)}" if notice["last_error"] else ""
    tries = f"{notice['attempts']} {'try' if notice['attempts'] == 1 else 'tries'}"
    return f"{notice['kind']} {notice['id']} {how} after {tries}{error}"
