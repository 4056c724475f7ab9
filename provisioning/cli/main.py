"""The console script."""

import sys


def main() -> None:
    """Run the command that was asked for.

    Raises:
        SystemExit: With the command's exit code; or with a sentence, where the wheel is installed
            without the extra that this tool needs.
    """
    try:
        from provisioning.cli.commands import app  # noqa: PLC0415 - may be missing, see below
    except ModuleNotFoundError as missing:
        sys.exit(
            f"provision-reaper needs the package {missing.name}, which is not installed."
            " Install it with its extra: pip install 'provision-reaper[sweep]'"
        )
    app()
