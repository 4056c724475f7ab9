"""Flow tests run the real flow in this process, against a real Prefect server and PostgreSQL."""

from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest
from prefect import tags
from prefect.client.schemas.objects import State

from flows.reap_stuck_provisions import reap_stuck_provisions
from flows.ui.origin import AUTO_SCHEDULED
from provisioning.settings import settings
from tests.chain.conftest import forge, provision, upstream_environment  # noqa: F401
from tests.outbox.owing import SECRET
from tests.outbox.receivers import Receiver, receiving

Sweep = Callable[..., Coroutine[Any, Any, State[Any]]]


@pytest.fixture
def sweep(prefect_api: str, worker_environment: pytest.MonkeyPatch) -> Sweep:
    """Run one sweep of the test's database, as the schedule does, and give its final state."""

    async def run(by_hand: bool = False, **parameters: Any) -> State[Any]:
        with tags(*([] if by_hand else [AUTO_SCHEDULED])):
            return await reap_stuck_provisions(**parameters, return_state=True)

    return run


@pytest.fixture
async def merchant(worker_environment: pytest.MonkeyPatch) -> AsyncIterator[Receiver]:
    """A merchant's receiver, on loopback, which this worker is allowed to reach."""
    worker_environment.setenv("PROVISION_WEBHOOK_ALLOW_PRIVATE_NETWORKS", "true")
    worker_environment.setenv("PROVISION_WEBHOOK_SECRET", SECRET)
    async with receiving() as receiver:
        settings.cache_clear()
        yield receiver
