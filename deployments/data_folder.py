"""The folder that keeps the local stack's data between two starts."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deployments.errors import StackError

MARKER = ".provision-reaper"
SYSTEM_FOLDER = Path("/var/lib/provision-reaper")


def default_data_folder(project: Path) -> Path:
    """`.data` in the project; for root, a folder outside of any private home.

    Root's PostgreSQL runs as another account, which must be able to reach its data.
    """
    if os.geteuid() != 0:
        return project / ".data"
    return SYSTEM_FOLDER / hashlib.sha256(os.fsencode(project)).hexdigest()[:12]


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Makes the folder ours, and keeps a second stack out of it, for the `with` block.

    A folder that holds anything and lacks our marker is left as it is. The lock goes with this
    process, however it ends.
    """
    _make(folder)
    marker = folder / MARKER
    if not marker.exists() and any(folder.iterdir()):
        raise StackError(
            f"{folder} holds files that are not the local stack's; nothing there was touched. "
            "Set PROVISION_DATA_DIR to another folder: a new or an empty one."
        )
    with marker.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StackError(
                f"Another `make run` uses {folder}: stop that one first, or set "
                "PROVISION_DATA_DIR and PROVISION_UI_PORT to run a second stack."
            ) from error
        if os.geteuid() == 0:
            folder.chmod(0o711)  # PostgreSQL's account has to pass
        yield


def _make(folder: Path) -> None:
    try:
        if folder.parent == SYSTEM_FOLDER:
            SYSTEM_FOLDER.mkdir(parents=True, exist_ok=True)
            SYSTEM_FOLDER.chmod(0o755)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StackError(
            f"Cannot make the data folder {folder}: {error.strerror}. Set PROVISION_DATA_DIR."
        ) from error
