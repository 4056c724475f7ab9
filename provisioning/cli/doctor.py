"""`doctor`: everything that could make a sweep blind, powerless, slow or unsafe here."""

from collections import Counter
from collections.abc import AsyncIterator

from rich.table import Table

from provisioning.cli.app import WRONG, AsJson, app, console, errors, platform, print_json, run
from provisioning.cli.checks import Check, Level, ok, wrong
from provisioning.cli.database_checks import check_database
from provisioning.cli.orchestration import check_prefect
from provisioning.cli.settings_checks import check_keys, check_teardown_address
from provisioning.errors import Explained, SettingsInvalid
from provisioning.settings import settings

_STYLES = {Level.OK: "green", Level.WARNING: "yellow", Level.WRONG: "bold red"}


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Check the whole installation: each line is ok, a warning or wrong, with what to do.

    Exit code 1 if anything is wrong; warnings alone are 0.
    """

    async def diagnose() -> int:
        checks = []
        with errors.status("Looking…"):
            async for check in check_all():
                checks.append(check)
                if not as_json:
                    _show(check)
        if as_json:
            print_json(checks)
        numbers = Counter(check.level for check in checks)
        errors.print(", ".join(f"{numbers[level]} {level}" for level in Level))
        return WRONG if numbers[Level.WRONG] else 0

    run(diagnose)


def _show(check: Check) -> None:
    line = Table.grid(padding=(0, 2))
    line.add_column(width=7, style=_STYLES[check.level])
    line.add_column(width=15)
    line.add_column(overflow="fold")
    line.add_row(check.level.value, check.subject, check.finding)
    console.print(line, soft_wrap=False)


async def check_all() -> AsyncIterator[Check]:
    """Every check, in the order in which a fault of one would explain those of the next."""
    try:
        config = settings()
    except SettingsInvalid as error:
        yield wrong("settings", str(error))
    else:
        yield ok("settings", "Every variable that is set can be used.")
        for check in check_keys(config):
            yield check
        yield await check_teardown_address(config)
        try:
            async with platform() as (engine, _):
                async for check in check_database(engine, config.database_shown):
                    yield check
        except Explained as error:
            yield wrong("database", str(error))
    for check in await check_prefect():
        yield check
