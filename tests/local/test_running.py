"""What `make outage` finds of a running stack, and what it is told where none runs."""

import subprocess
import sys
from pathlib import Path

import pytest

from deployments.data_folder import claimed
from deployments.errors import StackError
from deployments.options import Options
from deployments.running import NOTE, announced, find_running

SAMPLES = "postgresql://postgres@/provision?host=/somewhere"
SECRET = "postgresql://platform:s3cret@db/platform"


@pytest.fixture
def options(folder: Path) -> Options:
    return Options(data=folder / "data", ui_port=4300, database_url=None, api_url=None)


@pytest.fixture
def asking(options: Options) -> Options:
    """The options of a shell that knows the data folder and nothing else."""
    return Options(data=options.data, ui_port=4200, database_url=None, api_url=None)


def test_a_running_stack_is_found_with_its_own_port_and_database(
    options: Options, asking: Options
) -> None:
    with claimed(options.data), announced(options, SAMPLES):
        assert find_running(asking) == (options, SAMPLES)


def test_no_stack_at_all(asking: Options) -> None:
    with pytest.raises(StackError, match="make run"):
        find_running(asking)


def test_a_stack_that_was_killed_is_none(options: Options, asking: Options) -> None:
    killed = announced(options, SAMPLES)
    with claimed(options.data):
        killed.__enter__()
    assert (options.data / NOTE).exists()
    with pytest.raises(StackError, match="make run"):
        find_running(asking)


def test_a_stack_that_is_still_starting(options: Options, asking: Options) -> None:
    with claimed(options.data), pytest.raises(StackError, match="still starting"):
        find_running(asking)


def test_the_callers_own_database_gets_no_samples_and_is_not_written_down(
    options: Options, asking: Options
) -> None:
    theirs = Options(data=options.data, ui_port=4300, database_url=SECRET, api_url=None)
    with claimed(options.data), announced(theirs, SECRET):
        assert "s3cret" not in (options.data / NOTE).read_text()
        with pytest.raises(StackError, match="no sample site"):
            find_running(asking)


def test_the_command_says_it_without_a_traceback(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "deployments.outage"],
        env={"PROVISION_DATA_DIR": str(folder / "nothing")},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "No local stack runs" in done.stderr
    assert "make run" in done.stderr
    assert "Traceback" not in done.stderr
