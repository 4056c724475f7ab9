"""Processes and their children: what they use, as Linux counts it, and their end."""

import contextlib
from collections.abc import Iterable

import psutil


def cpu_seconds(roots: Iterable[int]) -> float:
    """User and system time of these processes and of their children, the ended ones included.

    A parent that waited for a child carries the child's time from then on, so between two
    readings nothing is lost and nothing counts twice.
    """
    total = 0.0
    for process in _family(roots):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def pss(roots: Iterable[int]) -> int:
    """Their memory in bytes, a page that several processes share counted in parts (PSS)."""
    total = 0
    for process in _family(roots):
        with contextlib.suppress(psutil.NoSuchProcess):
            total += process.memory_full_info().pss
    return total


def end(root: int) -> None:
    """End a process and its children: the kind way for 20 seconds, and then for good.

    By their ids, since some peers write over the environment by which `deployments.processes`
    finds a service again.
    """
    members = _family([root])
    for process in members:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    _, stubborn = psutil.wait_procs(members, timeout=20)
    for process in stubborn:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def machine_cpu_seconds() -> float:
    """All that this machine's cores have done."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - times.iowait - times.guest - times.guest_nice)


def _family(roots: Iterable[int]) -> list[psutil.Process]:
    members = []
    for root in roots:
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(root)
            members += [process, *process.children(recursive=True)]
    return members
