"""Flow tests run the real flow in this process, against a real Prefect server and PostgreSQL."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from prefect.client.schemas.objects import State

from flows.reap_stuck_provisions import reap_stuck_provisions

Sweep = Callable[..., Coroutine[Any, Any, State[Any]]]


@pytest.fixture
def sweep(prefect_api: str, worker_environment: pytest.MonkeyPatch) -> Sweep:
    """Run one sweep of the test's database, and give its final state."""

    async def run(**parameters: Any) -> State[Any]:
        return await reap_stuck_provisions(**parameters, return_state=True)

    return run
