"""The data folder: ours or untouched, and one stack at a time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from deployments.data_folder import claimed, default_data_folder
from deployments.errors import StackError

CLAIM = """
import sys
from pathlib import Path
from deployments.data_folder import claimed

with claimed(Path(sys.argv[1])):
    print("claimed")
"""


def claim_elsewhere(folder: Path) -> str:
    """The last line that another process gets from trying to claim the folder."""
    done = subprocess.run(
        [sys.executable, "-c", CLAIM, folder], capture_output=True, text=True, check=False
    )
    return (done.stdout or done.stderr).strip().splitlines()[-1]


def test_makes_a_new_folder_and_knows_it_again(folder: Path) -> None:
    data = folder / "new" / "data"
    with claimed(data):
        (data / "something").touch()
    with claimed(data):
        assert (data / "something").exists()
    assert data.stat().st_mode & 0o066 == 0


def test_leaves_a_foreign_folder_as_it_is(folder: Path) -> None:
    (folder / "thesis.txt").write_text("mine")
    before = folder.stat().st_mode
    with pytest.raises(StackError, match="nothing there was touched"), claimed(folder):
        pass
    assert [path.name for path in folder.iterdir()] == ["thesis.txt"]
    assert folder.stat().st_mode == before


def test_keeps_a_second_stack_out_and_lets_the_next_one_in(folder: Path) -> None:
    with claimed(folder):
        assert "Another `make run` uses" in claim_elsewhere(folder)
    assert claim_elsewhere(folder) == "claimed"


def test_says_why_a_folder_cannot_be_made(folder: Path) -> None:
    (folder / "file").touch()
    with pytest.raises(StackError, match="Set PROVISION_DATA_DIR"), claimed(folder / "file" / "x"):
        pass


def test_each_project_has_a_default_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert default_data_folder(Path("/home/ada/reaper")) == Path("/home/ada/reaper/.data")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    mine, other = default_data_folder(Path("/root/a")), default_data_folder(Path("/root/b"))
    assert mine != other
    assert not mine.is_relative_to("/root")
