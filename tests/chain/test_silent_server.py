"""A Prefect server that stops answering in mid-chain, under the settings of the deployment."""

import asyncio
import sys
import time
from pathlib import Path

import pytest
import yaml

from tests.chain.stub_server import StubServer
from tests.conftest import ROOT
from tests.faults.test_bounds import HangingApi
from tests.sites import Sites

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

SITE = 3_000_000_001

LONGEST_END = 150.0
"""Seconds from the last stamp of a chain to the end of its process."""


def deployed_environment() -> dict[str, str]:
    """What the deployment of the chain sets for its runs."""
    project = yaml.safe_load((ROOT / "prefect.yaml").read_text())
    (chain,) = (d for d in project["deployments"] if d["entrypoint"].endswith(".provision_site"))
    environment: dict[str, str] = chain["work_pool"]["job_variables"]["env"]
    return environment


async def test_a_server_that_stops_answering_changes_nothing_for_the_site(
    sites: Sites,
    forge: StubServer,
    upstream_environment: pytest.MonkeyPatch,
    prefect_api: str,
    tmp_path: Path,
) -> None:
    await sites.add(SITE, {}, domain="shop.example")
    forge.status = "installing"
    api = HangingApi(prefect_api)
    upstream_environment.setenv("PREFECT_API_URL", api.url)
    for name, value in deployed_environment().items():
        upstream_environment.setenv(name, value)
    with (tmp_path / "log").open("w") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.chain.one_chain", str(SITE)),
            cwd=ROOT,
            stdout=log,
            stderr=log,
        )
    try:
        await forge.until_asked("GET 100")
        api.hanging.set()
        hung = time.monotonic()
        forge.status = "installed"
        while not (await sites.metadata(SITE)).get("health_check", {}).get("completed_at"):
            assert process.returncode is None, (tmp_path / "log").read_text()
            await asyncio.sleep(0.5)
        live = time.monotonic()
        print(f"live after {live - hung:.0f} s")
        await process.wait()
        ended = time.monotonic()
        print(f"ended {ended - live:.0f} s after that")
        print((tmp_path / "log").read_text())
    finally:
        if process.returncode is None:
            process.kill()
        api.close()
    assert live - hung < 60
    assert ended - live < LONGEST_END
