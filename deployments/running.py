"""What a running local stack leaves in its data folder, for the commands that work on it."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from deployments.data_folder import MARKER
from deployments.errors import StackError
from deployments.options import Options

NOTE = "running.json"
"""No secret is in it: the caller's own database is not written down."""


@contextmanager
def announced(options: Options, sample_database_url: str) -> Iterator[None]:
    """Tells other commands where the stack is, for the `with` block."""
    own = options.database_url is None
    note = options.data / NOTE
    note.write_text(
        json.dumps(
            {
                "ui_port": options.ui_port,
                "api_url": options.api_url,
                "sample_database_url": sample_database_url if own else None,
            }
        )
    )
    try:
        yield
    finally:
        note.unlink(missing_ok=True)


def find_running(options: Options) -> tuple[Options, str]:
    """The options of the stack that runs on this data folder, and its database of samples.

    Raises:
        StackError: none runs there, it is not up yet, or it sweeps a database of the caller's.
    """
    if not _is_claimed(options):
        raise StackError(
            f"No local stack runs on {options.data}: start one with `make run` in another terminal."
        )
    try:
        note = json.loads((options.data / NOTE).read_text())
    except FileNotFoundError as error:
        raise StackError(
            "The local stack is still starting: try again once it shows its first sweep."
        ) from error
    if note["sample_database_url"] is None:
        raise StackError(
            "This stack sweeps the database of PROVISION_DATABASE_URL, where no sample site is "
            "ever added. Start one without it: `PROVISION_DATABASE_URL= make run`."
        )
    running = replace(options, ui_port=note["ui_port"], api_url=note["api_url"])
    return running, note["sample_database_url"]


def _is_claimed(options: Options) -> bool:
    """Whether a stack holds the folder's lock, which goes with its process however that ends."""
    try:
        with (options.data / MARKER).open() as marker:
            fcntl.flock(marker, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
