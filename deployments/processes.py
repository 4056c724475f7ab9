"""The stack's long-running children, found again and ended whatever became of their parent.

A child, and whatever it starts itself (a worker puts each flow run into a session of its own),
carries the path of its log in its environment. So no list of ids has to survive a `kill -9`,
and no process is ended that does not carry our mark.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from deployments.errors import StackError

MARK = "PROVISION_LOCAL_SERVICE"
GRACE_SECONDS = 15.0
LOG_TAIL_LINES = 15


@dataclass(frozen=True)
class Service:
    """A running child."""

    name: str
    log: Path
    process: subprocess.Popen[bytes]

    def check(self) -> None:
        """Raises when the service ended although nobody asked it to."""
        if (status := self.process.poll()) is not None:
            raise StackError(f"The {self.name} ended (exit code {status}).\n{tail(self.log)}")


@contextmanager
def service(
    name: str, command: Sequence[str | Path], *, log: Path, environment: Mapping[str, str]
) -> Iterator[Service]:
    """Runs `command` in a session of its own, out of reach of the terminal's Ctrl-C."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=log.parent,
            env={**environment, MARK: str(log)},
            start_new_session=True,
        )
    try:
        yield Service(name, log, process)
    finally:
        _end(lambda mark: mark == str(log))
        process.wait()


def end_leftovers(logs: Path) -> int:
    """Ends the services of an earlier stack that logged into this folder; says how many."""
    return _end(lambda mark: Path(mark).parent == logs)


def run_command(
    command: Sequence[str | Path],
    *,
    folder: Path,
    log: Path,
    environment: Mapping[str, str],
    timeout: float | None,
) -> None:
    """Runs a command that ends by itself; a failure shows the last lines of its log."""
    try:
        with log.open("wb") as output:
            subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env={**environment, MARK: str(log)},
                timeout=timeout,
                check=True,
            )
    except subprocess.CalledProcessError as error:
        raise StackError(f"It failed (exit code {error.returncode}).\n{tail(log)}") from error
    except subprocess.TimeoutExpired as error:
        raise StackError(f"It did not end within {timeout} s.\n{tail(log)}") from error


def tail(log: Path) -> str:
    """The last lines of a log, for an error message that is enough by itself."""
    lines = log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:]
    return "\n".join([*(f"  | {line}" for line in lines), f"The whole log: {log}"])


def _end(ours: Callable[[str], bool]) -> int:
    """SIGTERM, a bounded wait, SIGKILL; then again for what was started meanwhile."""
    ended = 0
    for _ in range(3):
        marked = [process for process in psutil.process_iter() if ours(_mark(process))]
        for process in marked:
            _signal(process, psutil.Process.terminate)
        _, stubborn = psutil.wait_procs(marked, timeout=GRACE_SECONDS)
        for process in stubborn:
            _signal(process, psutil.Process.kill)
        psutil.wait_procs(stubborn, timeout=GRACE_SECONDS)
        ended += len(marked)
        if not marked:
            break
    return ended


def _mark(process: psutil.Process) -> str:
    try:
        return "" if process.pid == os.getpid() else process.environ().get(MARK, "")
    except psutil.Error:
        return ""


def _signal(process: psutil.Process, send: Callable[[psutil.Process], None]) -> None:
    try:
        send(process)
    except psutil.NoSuchProcess:
        return
