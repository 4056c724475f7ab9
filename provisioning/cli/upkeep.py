"""`migrate`, `prune`, `contract`: what an installation needs now and then."""

from importlib.resources import as_file, files
from typing import Annotated

import typer

from provisioning.chain.contract import contract as statements
from provisioning.cli.app import COULD_NOT, AsJson, app, console, errors, platform, print_json, run
from provisioning.outbox.claims import prune as prune_notices
from provisioning.sweep.refusals import prune_refusals
from provisioning.text import count


@app.command()
def migrate(
    revision: Annotated[str, typer.Argument(help="Up to which revision.")] = "head",
) -> None:
    """Bring the database up to date, as `alembic upgrade head` does."""
    from alembic.config import main  # noqa: PLC0415  (half a second that no other command needs)

    try:
        with as_file(files("provisioning.migrations") / "alembic.ini") as settings:
            main(["--config", str(settings), "upgrade", revision])
    except SystemExit as ended:
        if not ended.code:
            raise
        errors.print(str(ended.code))
        raise typer.Exit(COULD_NOT) from None


@app.command()
def prune(as_json: AsJson = False) -> None:
    """Delete what is kept no longer: refusals of 30 days, settled notices of 90.

    Sweeps do it too. The ledger stays, and so do teardowns that nobody acknowledged.
    """

    async def delete() -> int:
        with errors.status("Deleting…"):
            async with platform() as (engine, _):
                deleted = {
                    "refusals": await prune_refusals(engine),
                    "notices": await prune_notices(engine),
                }
        if as_json:
            print_json(deleted)
        else:
            console.print(
                f"Deleted {count(deleted['refusals'], 'refusal')} and "
                f"{count(deleted['notices'], 'notice')}."
            )
        return 0

    run(delete)


@app.command()
def contract() -> None:
    """Print the statements of a chain, with the names of your own table, for any language."""
    console.print(statements(), end="")
