"""`make install` makes the environment that the lock names, whatever it finds."""

import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.commands import ROOT

LOCKED = dict(
    re.findall(r"^([a-z0-9-]+)(?:\[.*\])?==(\S+)", (ROOT / "requirements.lock").read_text(), re.M)
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the project without an environment."""
    skipped = shutil.ignore_patterns(".*", "tests", "docs", "__pycache__")
    return shutil.copytree(ROOT, tmp_path / "a folder", ignore=skipped)


def make_install(project: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        ["make", "install"],
        cwd=project,
        env=os.environ | {"VIRTUAL_ENV": "", "PYTHONPATH": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def install(project: Path) -> None:
    making = make_install(project)
    said, _ = making.communicate(timeout=170)
    assert making.returncode == 0, said


def installed(project: Path) -> dict[str, str]:
    listed = subprocess.run(
        [".venv/bin/uv", "pip", "freeze", "--exclude-editable", "--python", ".venv/bin/python"],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    packages = dict(line.split("==") for line in listed.stdout.splitlines())
    packages.pop("setuptools", None)  # comes with Python 3.11's venv; uv leaves it alone
    return packages


@pytest.mark.long
@pytest.mark.timeout(400)
def test_an_environment_of_another_day_is_brought_up_to_date(project: Path) -> None:
    install(project)
    first = installed(project)
    assert set(first.items()) <= set(LOCKED.items())
    assert is_compiled(project, "prefect")
    uv = [".venv/bin/uv", "pip", "install", "--quiet", "--python", ".venv/bin/python"]
    subprocess.run([*uv, "httpx==0.27.2", "colorlog"], cwd=project, timeout=60, check=True)
    assert installed(project) != first
    os.utime(project / "requirements.lock")
    install(project)
    assert installed(project) == first


def is_compiled(project: Path, package: str) -> bool:
    """Whether a run that may write nothing into the environment need not compile the package."""
    return bool(list(project.glob(f".venv/lib/python*/site-packages/{package}/__pycache__/*.pyc")))


def lose_a_part_of(project: Path, package: str) -> None:
    """As if the copying had been stopped after some files: uv does not see it (seen with 0.13)."""
    for folder in project.glob(f".venv/lib/python*/site-packages/{package}/engine"):
        shutil.rmtree(folder)


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.guarantee(
    fault="`make install` is killed half-way",
    holds="the next one makes the whole environment",
)
@pytest.mark.parametrize("begun", ["bin/python", "lib/python*/site-packages/sqlalchemy"])
def test_an_installation_that_was_killed_is_finished_by_the_next(project: Path, begun: str) -> None:
    making = make_install(project)
    deadline = time.monotonic() + 120
    while not list(project.glob(f".venv/{begun}")):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.killpg(making.pid, signal.SIGKILL)
    making.wait(timeout=10)
    lose_a_part_of(project, "sqlalchemy")
    install(project)
    run = [".venv/bin/python", "-c", "import flows.reap_stuck_provisions"]
    subprocess.run(run, cwd=project, timeout=60, check=True)
    assert set(installed(project).items()) <= set(LOCKED.items())
