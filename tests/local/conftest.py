"""Shared by the tests of the local stack."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short-named folder that other accounts may pass, which pytest's own is not."""
    with tempfile.TemporaryDirectory(prefix="local-", ignore_cleanup_errors=True) as name:
        path = Path(name).resolve()
        path.chmod(0o711)
        yield path
