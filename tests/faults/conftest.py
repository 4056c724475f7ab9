"""Fault tests: real processes, killed; real servers, stopped; and what comes after."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.aftermath import SITES, Aftermath
from tests.flow.conftest import merchant, sweep
from tests.outbox.receivers import Receiver
from tests.sites import Sites

__all__ = ["merchant", "sweep"]


@pytest.fixture
async def aftermath(sites: Sites, merchant: Receiver) -> Aftermath:
    """Six stuck sites, each with a webhook, and what must be true of them in the end."""
    for site_id in SITES:
        await sites.add_started(site_id, provision={"webhook": merchant.url(f"/{site_id}")})
    return Aftermath(sites, merchant)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short-named folder that other accounts may pass, which pytest's own is not."""
    with tempfile.TemporaryDirectory(prefix="faults-", ignore_cleanup_errors=True) as name:
        path = Path(name).resolve()
        path.chmod(0o711)
        yield path
