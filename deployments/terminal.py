"""What `make run` prints: one line a stage, a report, one line a sweep."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markdown import Markdown

WIDTH_WITHOUT_TERMINAL = 120

_console = Console(
    markup=False,
    highlight=False,
    emoji=False,
    width=None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL,
)


@contextmanager
def stage(title: str) -> Iterator[None]:
    """A spinner while it lasts, then a line with its duration or the word `failed`."""
    started = time.monotonic()
    try:
        with _console.status(title):
            yield
    except Exception:
        _console.print(f"{title:<50} failed")
        raise
    _console.print(f"{title:<50} {time.monotonic() - started:5.1f} s")


def say(text: str) -> None:
    """Prints the text as it is, on one line however narrow the terminal."""
    _console.print(text, soft_wrap=True)


def tell(text: str) -> None:
    """Prints sentences, broken between words where the terminal ends."""
    _console.print(text)


def show(markdown: str) -> None:
    """Prints headings and tables as such."""
    _console.print(Markdown(markdown))
