"""Every command, registered."""

from provisioning.cli import doctor, look, notices, site, upkeep
from provisioning.cli.app import app

__all__ = ["app", "doctor", "look", "notices", "site", "upkeep"]
