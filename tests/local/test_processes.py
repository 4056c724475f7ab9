"""No child outlives the stack, whatever became of the parent or of the child itself."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from deployments import processes
from deployments.errors import StackError
from deployments.processes import end_leftovers, run_command, service

SLEEPER = "import time; print('up', flush=True); time.sleep(60)"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN);" + SLEEPER
# As a worker does with each flow run: a process in a session of its own.
WITH_GRANDCHILD = (
    "import subprocess, sys;"
    "command = [sys.executable, '-c', 'import time; time.sleep(60)'];"
    f"subprocess.Popen(command, start_new_session=True); {SLEEPER}"
)
PARENT = f"""
import os, sys, time
from pathlib import Path
from deployments.processes import service

command = [sys.executable, "-c", {WITH_GRANDCHILD!r}]
with service("sleeper", command, log=Path(sys.argv[1]) / "sleeper.log", environment=os.environ):
    print("started", flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def _short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "GRACE_SECONDS", 1.0)


@pytest.fixture
def bystander(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that works in the same folder and was not started by the stack."""
    with subprocess.Popen([sys.executable, "-c", SLEEPER], cwd=folder, stdout=-3) as process:
        yield process
        assert process.poll() is None
        process.kill()


def marked_in(folder: Path) -> list[psutil.Process]:
    """The living processes that carry a log in this folder as their mark."""
    found = []
    for process in psutil.process_iter():
        try:
            if str(folder) in process.environ().get(processes.MARK, ""):
                found.append(process)
        except psutil.Error:
            continue
    return found


def wait_for_line(log: Path, line: str) -> None:
    deadline = time.monotonic() + 20
    while not (log.exists() and line in log.read_text()):
        assert time.monotonic() < deadline, f"no {line!r} in {log}"
        time.sleep(0.05)


@pytest.mark.parametrize("program", [SLEEPER, DEAF, WITH_GRANDCHILD])
@pytest.mark.usefixtures("bystander")
def test_a_service_and_all_that_it_started_ends_with_the_block(folder: Path, program: str) -> None:
    log = folder / "child.log"
    with service("child", [sys.executable, "-c", program], log=log, environment=os.environ):
        wait_for_line(log, "up")
        assert marked_in(folder)
    assert not marked_in(folder)


def test_a_stage_that_fails_half_way_leaves_nothing_running(folder: Path) -> None:
    def start_two_and_fail() -> None:
        with ExitStack() as running:
            for name in ("one", "two"):
                command = [sys.executable, "-c", SLEEPER]
                log = folder / f"{name}.log"
                running.enter_context(service(name, command, log=log, environment=os.environ))
            raise StackError("the third stage failed")

    with pytest.raises(StackError, match="the third stage"):
        start_two_and_fail()
    assert not marked_in(folder)


@pytest.mark.usefixtures("bystander")
def test_the_next_start_ends_what_a_killed_one_left(folder: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, folder], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout
        assert parent.stdout.readline() == "started\n"
        wait_for_line(folder / "sleeper.log", "up")
        parent.send_signal(signal.SIGKILL)
    assert len(marked_in(folder)) == 2
    assert end_leftovers(folder / "another") == 0
    assert end_leftovers(folder) == 2
    assert not marked_in(folder)


def test_a_service_that_died_is_named_with_the_end_of_its_log(folder: Path) -> None:
    command = [sys.executable, "-c", "print('no such pool'); raise SystemExit(3)"]
    with service("worker", command, log=folder / "worker.log", environment=os.environ) as worker:
        worker.process.wait(timeout=20)
        with pytest.raises(StackError, match=r"worker ended \(exit code 3\)(.|\n)*no such pool"):
            worker.check()


def test_a_command_that_fails_shows_the_end_of_its_log(folder: Path) -> None:
    command = [sys.executable, "-c", "print('table missing'); raise SystemExit(2)"]
    with pytest.raises(StackError, match=r"exit code 2(.|\n)*table missing(.|\n)*migrate.log"):
        run_command(
            command, folder=folder, log=folder / "migrate.log", environment=os.environ, timeout=20
        )


def test_a_command_that_hangs_is_ended(folder: Path) -> None:
    command = [sys.executable, "-c", SLEEPER]
    with pytest.raises(StackError, match="did not end within"):
        run_command(command, folder=folder, log=folder / "a.log", environment=os.environ, timeout=1)
    assert not marked_in(folder)
