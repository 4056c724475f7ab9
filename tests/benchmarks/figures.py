"""What a benchmark yields: figures, some of them with a target."""

import os
import platform
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median


@dataclass(frozen=True)
class Figure:
    """One measured number.

    Attributes:
        target: the most it may be, or the least where `at_least` is set; None where it is only
            reported.
    """

    benchmark: str
    name: str
    value: float
    unit: str
    target: float | None = None
    at_least: bool = False

    @property
    def met(self) -> bool | None:
        """Whether the target was reached; None where there is none."""
        if self.target is None:
            return None
        return self.value >= self.target if self.at_least else self.value <= self.target

    @property
    def verdict(self) -> str:
        """Whether the target was reached, in a word; empty where there is none."""
        return {True: "met", False: "MISSED", None: ""}[self.met]

    @property
    def shown_value(self) -> str:
        """The value with three digits that count."""
        return f"{self.value:,.3g}" if self.value < 1000 else f"{self.value:,.0f}"

    @property
    def shown_target(self) -> str:
        """The target in words."""
        if self.target is None:
            return ""
        return f"{'≥' if self.at_least else '≤'} {self.target:,g}"


Action = Callable[[], Awaitable[object]]


async def medians(
    rounds: int, *actions: Action, before: Callable[[], None] = lambda: None
) -> list[float]:
    """The median time of each action in seconds, taken in turns so that noise meets all alike.

    Args:
        before: what each round needs first; its time does not count.
    """
    times: list[list[float]] = [[] for _ in actions]
    for _ in range(rounds):
        before()
        for taken, action in zip(times, actions, strict=True):
            started = time.perf_counter()
            await action()
            taken.append(time.perf_counter() - started)
    return [median(taken) for taken in times]


def machine() -> str:
    """What it was measured on."""
    return f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"


def as_json(figures: list[Figure]) -> dict[str, object]:
    """The figures for a program, or for a page."""
    return {
        "machine": machine(),
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "figures": [vars(figure) | {"met": figure.met} for figure in figures],
    }
