"""The commands, and what all of them share: settings, errors, exit codes, JSON."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import asdict, is_dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any

import typer
from rich.console import Console
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.database import database
from provisioning.errors import Explained
from provisioning.settings import Settings, settings

WRONG = 1
"""Exit code: it looked, and something is wrong."""

COULD_NOT = 3
"""Exit code: it could not do what was asked. (2 is a mistake on the command line.)"""

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Look at, check and tend an installation of provision reaper. The settings are those of a "
    "worker: PROVISION_DATABASE_URL and the others of docs/settings.md. Exit codes: 0 all is well, "
    "1 something is wrong, 2 a mistake on the command line, 3 it could not be done.",
)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]

console = Console(markup=False, highlight=False, emoji=False, soft_wrap=True)
errors = Console(stderr=True, markup=False, highlight=False, emoji=False, soft_wrap=True)


def run(command: Callable[[], Coroutine[Any, Any, int]]) -> None:
    """Run a command to its exit code. An error that explains itself is printed, and nothing else.

    Raises:
        typer.Exit: always.
    """
    try:
        code = asyncio.run(command())
    except Explained as error:
        errors.print(str(error))
        code = COULD_NOT
    raise typer.Exit(code)


@asynccontextmanager
async def platform() -> AsyncIterator[tuple[AsyncEngine, Settings]]:
    """The platform's database and the settings, for the length of one command."""
    config = settings()
    async with database(
        config.database_url.get_secret_value(), pooled=config.database_pooled
    ) as engine:
        yield engine, config


def print_json(value: Any) -> None:
    """Print a value as JSON: instants in ISO 8601, spans of time in seconds."""
    # In ASCII: a terminal obeys control characters that JSON does not escape.
    json.dump(value, sys.stdout, default=_plain, indent=2)
    sys.stdout.write("\n")


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    return str(value)
