"""Whole sweeps as the role of the README. What that role may not is in tests/database."""

from collections.abc import AsyncIterator

import pytest

from provisioning.settings import settings
from tests.database.test_permissions import rights_of_the_readme
from tests.flow.conftest import Sweep
from tests.flow.traces import message, run_id
from tests.outbox.receivers import Receiver
from tests.sites import Sites

ROLE = "reaper"


@pytest.fixture
async def least_rights(
    sites: Sites, database_url: str, worker_environment: pytest.MonkeyPatch, merchant: Receiver
) -> AsyncIterator[None]:
    """The worker connects as that role."""
    await sites.run(f"DROP ROLE IF EXISTS {ROLE}")
    for statement in rights_of_the_readme():
        await sites.run(statement)
    worker_environment.setenv(
        "PROVISION_DATABASE_URL", database_url.replace("//postgres@", f"//{ROLE}@")
    )
    settings.cache_clear()
    yield
    await sites.run(f"DROP OWNED BY {ROLE}")


@pytest.mark.guarantee(
    fault="the worker has the rights of the README and no others",
    holds="whole sweeps reap, deliver, refuse and approve",
)
async def test_a_sweep_reaps_delivers_refuses_and_approves_with_the_rights_of_the_readme(
    least_rights: None, sweep: Sweep, sites: Sites, merchant: Receiver
) -> None:
    await sites.add_started(1, provision={"webhook": merchant.url()})
    reaped = await sweep()
    assert reaped.name == "Reaped", message(reaped)
    assert len(merchant.requests) == 1
    await sites.add_many(26, first=10)
    assert "A sweep would refuse" in message(await sweep(dry_run=True))
    refused = await sweep()
    assert refused.name == "Refused"
    approved = await sweep(approve_refusal=str(run_id(refused)))
    assert approved.name == "Reaped", message(approved)
    assert await sites.ledger() == [1, *range(10, 36)]
