"""`look`: what a dry run would show, without a Prefect server."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated
from uuid import uuid4

import typer
from rich.markdown import Markdown
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.cli.app import WRONG, AsJson, app, console, errors, platform, print_json, run
from provisioning.errors import CapExceeded
from provisioning.site_state import Outcome
from provisioning.sweep.caps import Caps, check
from provisioning.sweep.last_hour import last_hour
from provisioning.sweep.refusals import read_past
from provisioning.sweep.refusing import refuse
from provisioning.sweep.report import refusal_report, report
from provisioning.sweep.result import Ending, Result, blindness, conclude, nearness
from provisioning.sweep.snapshot import Snapshot
from provisioning.sweep.snapshot import look as look_at
from provisioning.text import sentences

LISTED = 1_000
DEPLOYMENT = "reap-stuck-provisions/every-5-minutes"


@dataclass(frozen=True)
class Rehearsal:
    """What a scheduled sweep would do now.

    Attributes:
        seen: what it would see.
        refusal: why it would refuse, or end because it is blind; None if it would act.
        page: its report, as Markdown.
    """

    seen: Snapshot
    refusal: str | None
    page: str


@app.command()
def look(
    stuck_after_minutes: Annotated[int, typer.Option(min=1, help="The threshold.")] = 30,
    max_reap_per_run: Annotated[int, typer.Option(min=1, help="The cap of a run.")] = 25,
    max_reap_per_hour: Annotated[int, typer.Option(min=1, help="The cap of an hour.")] = 100,
    max_reap_share: Annotated[
        int | None, typer.Option(min=1, max=100, help="The cap in percent of what is in flight.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a sweep would find and do now. Nothing is written.

    Exit code 1 if a sweep would refuse, or could not read most of what is in flight.
    """

    async def show() -> int:
        with errors.status("Looking…"):
            async with platform() as (engine, config):
                where = config.database_shown
                rehearsal = await rehearse(
                    engine,
                    where,
                    timedelta(minutes=stuck_after_minutes),
                    Caps(max_reap_per_run, max_reap_per_hour, max_reap_share),
                )
        if as_json:
            print_json(
                {
                    "database": where,
                    "would_refuse": rehearsal.refusal,
                    "seen": rehearsal.seen,
                }
            )
        elif console.is_terminal:
            console.print(Markdown(rehearsal.page), soft_wrap=False)
        else:
            console.print(rehearsal.page)
        return WRONG if rehearsal.refusal else 0

    run(show)


async def rehearse(
    engine: AsyncEngine, database: str, threshold: timedelta, caps: Caps
) -> Rehearsal:
    """Look as a scheduled sweep does, and write its report, which names the database.

    Raises:
        DatabaseUnready: what is wrong with the database, and what to do.
        DatabaseError: the database did not answer.
    """

    def told(message: str) -> str:
        return sentences(message, f"Database: {database}")

    seen = await look_at(engine, threshold, LISTED, writes=False)
    past = await read_past(engine, uuid4())
    blind = blindness(seen)
    if blind:
        page = report("Could not look", told(blind), seen, [], approves=None, notices=None)
        return Rehearsal(seen, blind, page)
    try:
        check(seen.stuck_total, seen.in_flight, seen.reaped_last_hour, caps, past.standing)
    except CapExceeded as exceeded:
        message = refuse(
            seen, exceeded, past, stands=not exceeded.per_hour, dry_run=True, notices=None
        )
        page = refusal_report(
            Ending.REHEARSED,
            told(message),
            seen,
            exceeded,
            run_id=None,
            form=None,
            deployment=DEPLOYMENT,
            hour=await last_hour(engine) if exceeded.per_hour else [],
            notices=None,
        )
        return Rehearsal(seen, str(exceeded), page)
    results = [Result(site, Outcome.WOULD_REAP) for site in seen.stuck]
    near = nearness(seen.stuck_total, seen.reaped_last_hour, caps)
    ending, message = conclude(seen, results, dry_run=True, near=near, approves=None, notices=None)
    return Rehearsal(
        seen,
        None,
        report(ending, told(message), seen, results, approves=None, notices=None),
    )
