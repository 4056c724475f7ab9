"""requirements.lock is what `make lock` makes of pyproject.toml."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands import ROOT

REQUIREMENT = re.compile(r"^([a-z0-9.-]+(?:\[[a-z0-9, -]+\])?==[^\\\n]*?) *\\?$", re.MULTILINE)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of what the lock is made of and made by."""
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def differences(project: Path) -> set[str]:
    """The requirements that `make lock` would add to the lock or take out of it.

    Hashes are not compared: a version can get further files after it was locked.
    """
    before = set(REQUIREMENT.findall((project / "requirements.lock").read_text()))
    made = subprocess.run(
        ["make", "lock", f"VENV={sys.prefix}", f"--old-file={sys.prefix}/installed"],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if "Failed to fetch" in made.stderr:
        pytest.skip("the package registry can't be reached, so nobody knows what it would lock")
    assert made.returncode == 0, made.stderr
    return before ^ set(REQUIREMENT.findall((project / "requirements.lock").read_text()))


def test_the_lock_is_what_pyproject_asks_for(project: Path) -> None:
    assert differences(project) == set(), "run `make lock` and commit requirements.lock"


@pytest.mark.parametrize(
    ("file", "change", "found"),
    [
        pytest.param(
            "pyproject.toml",
            lambda text: text.replace("\ndependencies = [", '\ndependencies = ["colorlog",'),
            {"colorlog"},
            id="a dependency that is not locked",
        ),
        pytest.param(
            "requirements.lock",
            lambda text: text + "colorlog==6.9.0\n",
            {"colorlog"},
            id="a package that nothing asks for",
        ),
        pytest.param(
            "requirements.lock",
            lambda text: re.sub(r"^httpx\[http2\]==", "httpx==", text, flags=re.MULTILINE),
            {"httpx", "httpx[http2]"},
            id="an extra that a dependency asks for",
        ),
    ],
)
def test_a_difference_is_found(
    project: Path, file: str, change: Callable[[str], str], found: set[str]
) -> None:
    path = project / file
    path.write_text(change(path.read_text()))
    assert {requirement.split("==")[0] for requirement in differences(project)} == found
