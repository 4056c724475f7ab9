"""The trial upstream of the local stack, driven as a worker of that stack drives it."""

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from prefect.client.schemas.objects import State

from deployments.samples import TO_TRY, add_samples, to_try
from deployments.trial_upstream import environment, free_port
from flows.provision_site import provision_site
from provisioning.chain import polling
from tests.sites import Sites


@pytest.fixture
def trial(worker_environment: pytest.MonkeyPatch) -> Iterator[None]:
    """The trial upstream as a process, and the environment of a worker for it."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "deployments.trial_upstream", "--port", str(port)]
    )
    for name, value in environment(port).items():
        worker_environment.setenv(name, value)
    deadline = time.monotonic() + 30
    while socket.socket().connect_ex(("127.0.0.1", port)):
        assert process.poll() is None
        assert time.monotonic() < deadline, "it does not listen"
        time.sleep(0.1)
    yield
    process.kill()
    process.wait()


@pytest.mark.usefixtures("trial", "prefect_api")
async def test_the_one_sample_goes_live_and_the_other_fails(
    sites: Sites, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polling, "PAUSES", (0.5,))
    add_samples(database_url)
    lives, fails = to_try(database_url)
    run: Any = provision_site
    states: list[State[Any]] = await asyncio.gather(
        run(lives, return_state=True), run(fails, return_state=True)
    )
    assert [state.name for state in states] == ["Live", "Failed"], [s.message for s in states]
    at = "SELECT metadata #>> '{health_check,completed_at}' FROM sites WHERE id = :id"
    assert await sites.rows(at, id=lives) != [(None,)]
    ((reason,),) = await sites.rows("SELECT detail FROM terminal_failures")
    assert reason.startswith("chain: the upstream says 'failed' of its site ")

    again: State[Any] = await run(fails, return_state=True)
    assert again.message == f"{reason}.", "it goes on with its own site, which stays as it is"


def test_samples_of_an_older_kind_have_nothing_to_try(database_url: str) -> None:
    assert to_try(database_url) == []
    add_samples(database_url)
    assert len(to_try(database_url)) == len(TO_TRY)
