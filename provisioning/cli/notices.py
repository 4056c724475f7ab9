"""`notices`: what is owed and what was given up; send again, or acknowledge."""

from collections.abc import Awaitable, Callable
from typing import Annotated
from uuid import UUID

import typer
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.cli.app import WRONG, AsJson, app, console, errors, platform, print_json, run
from provisioning.outbox import desk
from provisioning.outbox.desk import Chosen, Standing
from provisioning.outbox.store import Notice
from provisioning.text import count, one_line

commands = typer.Typer(no_args_is_help=True, help="What is owed to merchants and the platform.")
app.add_typer(commands, name="notices")

Ids = Annotated[list[UUID] | None, typer.Argument(metavar="[ID]...", help="Notices, by their ids.")]
Host = Annotated[str | None, typer.Option(help="Webhooks to this receiver's host.")]
Every = Annotated[bool, typer.Option("--all", help="Every one.")]
Limit = Annotated[int, typer.Option(min=1, help="The most that are listed.")]


@commands.command("list")
def list_(host: Host = None, limit: Limit = 500, as_json: AsJson = False) -> None:
    """List what is owed or was given up, teardowns first."""

    async def show() -> int:
        async with platform() as (engine, _):
            chosen = Chosen(host=host, all=host is None)
            found = await desk.look_up(engine, chosen, limit=limit)
        if as_json:
            print_json([_fields(standing, notice) for standing, notice in found])
            return 0
        for standing, notice in found:
            console.print(_line(standing, notice))
        errors.print(f"{count(len(found), 'notice')} not delivered.")
        return 0

    run(show)


def _fields(standing: Standing, notice: Notice) -> dict[str, object]:
    return {
        "id": notice.id,
        "kind": notice.kind,
        "standing": standing,
        "site_id": notice.site_id,
        "domain": notice.domain,
        "receiver": notice.receiver,
        "failed_at": notice.failed_at,
        "attempts": notice.attempts,
        "next_attempt_at": notice.next_attempt_at if standing is Standing.OWED else None,
        "last_error": notice.last_error,
        "signed_with_a_key_of_the_site": notice.signed,
    }


def _line(standing: Standing, notice: Notice) -> str:
    receiver = f" to {notice.receiver}" if notice.receiver else ""
    error = f": {one_line(notice.last_error, 300)}" if notice.last_error else ""
    tries = f"{notice.attempts} {'try' if notice.attempts == 1 else 'tries'}"
    return f"{notice.id}  {notice}{receiver}, {standing.value} after {tries}{error}"


@commands.command()
def resend(
    ids: Ids = None, host: Host = None, every: Every = False, as_json: AsJson = False
) -> None:
    """Make notices due at once, also those that were given up. The next sweep sends them."""
    _act(desk.resend, "is due: the next sweep sends it", _chosen(ids, host, every), as_json)


@commands.command()
def acknowledge(
    ids: Ids = None, host: Host = None, every: Every = False, as_json: AsJson = False
) -> None:
    """Say that somebody has seen to notices that were given up: runs are not red for them."""
    _act(desk.acknowledge, "is acknowledged", _chosen(ids, host, every), as_json)


def _chosen(ids: list[UUID] | None, host: str | None, every: bool) -> Chosen:
    if sum((bool(ids), host is not None, every)) != 1:
        raise typer.BadParameter("name notices by their ids, or by --host, or take --all")
    return Chosen(ids=ids or (), host=host, all=every)


def _act(
    act: Callable[[AsyncEngine, Chosen], Awaitable[list[UUID]]],
    done: str,
    chosen: Chosen,
    as_json: bool,
) -> None:
    async def do() -> int:
        with errors.status("Writing…"):
            async with platform() as (engine, _):
                changed = await act(engine, chosen)
        if as_json:
            print_json(changed)
        else:
            for notice_id in changed:
                console.print(f"{notice_id} {done}")
        if not changed:
            errors.print("Nothing was changed: see `provision-reaper notices list`.")
            return WRONG
        return 0

    run(do)
