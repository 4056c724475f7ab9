"""A database that goes away right after a send: what was sent and not recorded is owed."""

from typing import Any

import pytest
from prefect.client.schemas.objects import StateType

from provisioning.errors import DatabaseError
from provisioning.outbox import delivery
from provisioning.outbox.claims import record
from provisioning.settings import settings
from tests.flow.conftest import Sweep
from tests.flow.traces import message
from tests.outbox.receivers import Receiver
from tests.sites import Sites


@pytest.mark.guarantee(
    fault="the database goes away between a send and its record",
    holds="the notice counts as owed, and a teardown makes the run Incomplete",
    guard=(
        "without the word for it, the next try takes its own claim for another sender's, "
        "and the run ends Reaped"
    ),
)
async def test_a_teardown_whose_result_got_lost_is_owed_and_the_run_says_so(
    sweep: Sweep,
    sites: Sites,
    merchant: Receiver,
    worker_environment: pytest.MonkeyPatch,
) -> None:
    """The try after it finds its own claim, which is not another sender's."""
    lost: list[Any] = []

    async def lose_the_first(*arguments: Any) -> None:
        if not lost:
            lost.append(arguments)
            raise DatabaseError("the connection is lost", transient=True)
        await record(*arguments)

    worker_environment.setattr(delivery, "record", lose_the_first)
    worker_environment.setenv("PROVISION_TEARDOWN_URL", merchant.url("/teardown"))
    settings.cache_clear()
    await sites.add_started(1)
    state = await sweep()
    assert len(merchant.requests) == 1
    assert (state.name, state.type) == ("Incomplete", StateType.FAILED), message(state)
    assert "1 notice still owed (1 teardown)" in message(state)
