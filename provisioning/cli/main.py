"""The console script: every command, registered."""

from provisioning.cli import doctor, look, notices, site, upkeep
from provisioning.cli.app import app

__all__ = ["app", "doctor", "look", "main", "notices", "site", "upkeep"]


def main() -> None:
    """Run the command that was asked for."""
    app()
