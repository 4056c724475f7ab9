"""An environment of its own for each peer, made by uv from the registry."""

import subprocess
import sys
from pathlib import Path


class NotToBeHad(Exception):
    """A peer that can't be installed here, with the installer's own last words."""


def environment(folder: Path, pins: tuple[str, ...]) -> Path:
    """Make an environment with these packages, or bring it up to date; the folder of its commands.

    Raises:
        NotToBeHad: a package is not to be had, or not for this Python.
    """
    python = folder / "bin" / "python"
    if not python.exists():
        _uv("venv", "--python", sys.executable, str(folder))
    _uv("pip", "install", "--compile-bytecode", "--python", str(python), *pins)
    return python.parent


def _uv(*arguments: str) -> None:
    command = (sys.executable, "-m", "uv", "--quiet", *arguments)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    except subprocess.TimeoutExpired:
        raise NotToBeHad("uv did not end within 600 s") from None
    if done.returncode:
        raise NotToBeHad(" ".join(done.stderr.split())[-300:])
