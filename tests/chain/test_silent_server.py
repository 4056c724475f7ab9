"""A Prefect server that stops answering in mid-run, under the settings of the deployment."""

import asyncio
import json
import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, PREFECT_CLIENT_RETRY_JITTER_FACTOR

from flows.leaving import LEAVE_AFTER
from flows.ui.publish import PUBLISH_SECONDS
from tests.chain.stub_server import StubServer
from tests.commands import ROOT
from tests.faults.test_bounds import HangingApi
from tests.sites import Sites

SITE = 3_000_000_001
A_MOMENT = 15.0
"""Seconds for a process to do its work, and to leave, on a busy machine."""


def deployed_environment() -> dict[str, str]:
    """What the deployment of the chain sets for its runs."""
    project = yaml.safe_load((ROOT / "prefect.yaml").read_text())
    (chain,) = (d for d in project["deployments"] if d["entrypoint"].endswith(".provision_site"))
    environment: dict[str, str] = chain["work_pool"]["job_variables"]["env"]
    return environment


def test_the_end_of_a_run_is_told_before_its_process_leaves() -> None:
    """One call, which Prefect tries again, and again."""
    seconds = float(deployed_environment()["PREFECT_API_REQUEST_TIMEOUT"])
    tries = PREFECT_CLIENT_MAX_RETRIES.value() + 1
    pauses = sum(2.0**n for n in range(1, tries)) * (1 + PREFECT_CLIENT_RETRY_JITTER_FACTOR.value())
    assert tries * seconds + pauses < LEAVE_AFTER


async def started(
    flow: str, parameters: dict[str, Any], leaves_after: float, log: Path
) -> asyncio.subprocess.Process:
    """A run in a process of its own, under the settings of the environment."""
    with log.open("w") as output:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.chain.one_run", flow, json.dumps(parameters)),
            str(leaves_after),
            cwd=ROOT,
            stdout=output,
            stderr=output,
        )


@pytest.mark.long
@pytest.mark.e2e
@pytest.mark.timeout(600)
@pytest.mark.parametrize("leaves_after", [20.0, LEAVE_AFTER])
@pytest.mark.guarantee(
    fault="a Prefect server that stops answering in mid-chain",
    holds="the site goes live all the same, and the process ends within its bound after that",
    guard="the end by `leaving`: without it the process was there 324 s after its work, and not 35",
)
async def test_a_server_that_stops_answering_changes_nothing_for_the_site(
    sites: Sites,
    forge: StubServer,
    upstream_environment: pytest.MonkeyPatch,
    prefect_api: str,
    tmp_path: Path,
    leaves_after: float,
) -> None:
    await sites.add(SITE, {}, domain="shop.example")
    forge.status = "installing"
    api = HangingApi(prefect_api)
    upstream_environment.setenv("PREFECT_API_URL", api.url)
    for name, value in deployed_environment().items():
        upstream_environment.setenv(name, value)
    process = await started("chain", {"site_id": SITE}, leaves_after, tmp_path / "log")
    try:
        await forge.until_asked("GET 100")
        api.hanging.set()
        hung = time.monotonic()
        forge.status = "installed"
        while not (await sites.metadata(SITE)).get("health_check", {}).get("completed_at"):
            assert process.returncode is None, (tmp_path / "log").read_text()
            await asyncio.sleep(0.5)
        live = time.monotonic()
        await process.wait()
        ended = time.monotonic()
    finally:
        if process.returncode is None:
            process.kill()
        api.close()
    print(f"live after {live - hung:.0f} s, ended {ended - live:.0f} s after that")
    print((tmp_path / "log").read_text())
    assert live - hung < A_MOMENT
    assert ended - live < leaves_after + A_MOMENT
    assert process.returncode == 1, "nobody knows of its end"


@pytest.mark.long
@pytest.mark.e2e
@pytest.mark.guarantee(
    fault="a Prefect server that stops answering as a sweep publishes its report",
    holds="the site is failed, and the process ends within its bound after that",
    guard="without `leaving` in the flow the process was still there 50 s later, and not 35",
)
async def test_a_sweep_leaves_a_server_that_stops_answering(
    sites: Sites, worker_environment: pytest.MonkeyPatch, prefect_api: str, tmp_path: Path
) -> None:
    await sites.add_started(1)
    api = HangingApi(prefect_api, re.compile(rb"POST /api/artifacts"))
    worker_environment.setenv("PREFECT_API_URL", api.url)
    for name, value in deployed_environment().items():
        worker_environment.setenv(name, value)
    process = await started("sweep", {}, 20.0, tmp_path / "log")
    try:
        assert await asyncio.to_thread(api.hanging.wait, 60), (tmp_path / "log").read_text()
        hung = time.monotonic()
        assert await sites.failed() == [1]
        async with asyncio.timeout(PUBLISH_SECONDS + 20.0 + A_MOMENT):
            await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
        api.close()
    print(f"ended {time.monotonic() - hung:.0f} s after the server hung")
    assert process.returncode == 1, "nobody knows of its end"
