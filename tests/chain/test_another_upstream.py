"""The example of docs/examples, driven as its page says: a second upstream, and a flow for it."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from prefect import flow
from prefect.client.schemas.objects import State
from pydantic import SecretStr
from sqlalchemy.ext.asyncio import AsyncEngine

from docs.examples.runcloud import RunCloud
from flows.provision_site import provision
from provisioning.chain import polling
from provisioning.chain.api import Api
from tests.chain.runcloud_server import SERVER, SETTINGS, RunCloudServer
from tests.chain.stub_server import LOST, TOKEN, Spoilt, serving
from tests.sites import Sites

ONE, TWO = 3_000_000_001, 3_000_000_002


@pytest.fixture
def runcloud(
    prefect_api: str, worker_environment: pytest.MonkeyPatch, monkeypatch: pytest.MonkeyPatch
) -> Any:
    monkeypatch.setattr(polling, "PAUSES", (0.05,))
    with serving(RunCloudServer) as server:
        yield server


async def provision_at(runcloud: RunCloudServer, engine: AsyncEngine, site_id: int) -> State[Any]:
    upstream = RunCloud(Api(f"{runcloud.url}/api/v3", SecretStr(TOKEN)), SERVER, SETTINGS)

    @flow(name="provision-site-at-runcloud", persist_result=False)
    async def run() -> State[Any]:
        return await provision(
            engine,
            upstream,
            site_id,
            health_url=runcloud.health_url,
            limit=timedelta(minutes=20),
            teardown=True,
        )

    return await run(return_state=True)


async def test_a_site_is_provisioned_to_live(
    runcloud: RunCloudServer, sites: Sites, engine: AsyncEngine
) -> None:
    await sites.add(ONE, {}, domain="例え.jp")
    runcloud.spoil("POST", LOST)
    runcloud.spoil("GET", Spoilt(429, {"retry-after": "1"}))
    state = await provision_at(runcloud, engine, ONE)
    assert state.name == "Live", state.message
    (app,) = runcloud.sites
    assert app["domainName"] == "xn--r8jz45g.jp"
    assert app["name"].startswith("provision-")
    assert runcloud.creates() == 1, "the lost answer was recognised by its name"


async def test_a_domain_that_is_taken_fails_the_second_and_leaves_the_first(
    runcloud: RunCloudServer, sites: Sites, engine: AsyncEngine
) -> None:
    await sites.add(ONE, {}, domain="shop.example")
    await sites.add(TWO, {}, domain="SHOP.example")
    assert (await provision_at(runcloud, engine, ONE)).name == "Live"
    state = await provision_at(runcloud, engine, TWO)
    assert state.name == "Failed"
    assert state.message
    assert "The domainName has already been taken" in state.message
    ((body,),) = await sites.rows("SELECT body FROM notices WHERE kind = 'teardown'")
    assert json.loads(bytes(body))["data"]["upstream_id"] is None


def test_the_page_shows_the_example_as_it_is() -> None:
    root = Path(__file__).parents[2] / "docs"
    code = (root / "examples" / "runcloud.py").read_text()
    body = code[code.index("@dataclass") :]
    assert body.strip() in (root / "upstreams.md").read_text()
