"""Ids as a person types them into the form: the whole chain, whatever the type of the column."""

import json
from typing import Any
from uuid import UUID

import pytest
from prefect import get_client
from prefect.client.schemas.objects import FlowRun
from prefect.states import Crashed

from flows.provision_site import provision_site
from provisioning.chain import begin
from provisioning.outbox.notices import stable_ids
from tasks.fail_stopped_run import fail_stopped_run
from tests import second_table
from tests.chain.conftest import Provision
from tests.chain.forge_server import ForgeServer, Spoilt
from tests.chain.test_provision_site import retry
from tests.sites import Sites

pytestmark = pytest.mark.heart

A_UUID = "5eed0000-0000-4000-8000-0000b2d05e01"
UUIDS: list[tuple[str, str, Any]] = [
    ("uuid", A_UUID, A_UUID),
    ("uuid", A_UUID, A_UUID.upper()),
    ("uuid", A_UUID, f"{{{A_UUID.replace('-', '')}}}"),
]
OTHERS: list[tuple[str, str, Any]] = [
    ("bigint", "3000000001", 3_000_000_001),
    ("bigint", "3000000001", "3000000001"),
    ("bigint", "3000000001", " 03000000001"),
    ("text", "shop's; DROP TABLE sites --", "shop's; DROP TABLE sites --"),
    ("text", "例え", "例え"),
]
KINDS = UUIDS if second_table.chosen() else [*UUIDS, *OTHERS]


async def add(sites: Sites, kind: str, site_id: str, webhook: str) -> None:
    if not second_table.chosen():
        await sites.run(
            f"ALTER TABLE sites ALTER id TYPE {kind} USING CAST(CAST(id AS text) AS {kind})"
        )
        await sites.engine.dispose()
    await sites.run(
        f"INSERT INTO sites VALUES (CAST(:id AS {kind}), 'shop.example',"
        " jsonb_build_object('provision', jsonb_build_object('webhook', CAST(:webhook AS text))))",
        id=site_id,
        webhook=webhook,
    )


async def run_of(typed: Any) -> FlowRun:
    """A run as the UI's form makes one: its parameters are JSON."""
    async with get_client() as client:
        made = await client.create_flow_run(provision_site, parameters={"site_id": typed})
        return await client.read_flow_run(made.id)


@pytest.fixture
def told_at(upstream_environment: pytest.MonkeyPatch, forge: ForgeServer) -> str:
    """The merchant's address; the platform's takes teardowns beside it."""
    upstream_environment.setenv("PROVISION_WEBHOOK_ALLOW_PRIVATE_NETWORKS", "true")
    upstream_environment.setenv("PROVISION_TEARDOWN_URL", f"{forge.url}/hook/teardown")
    return f"{forge.url}/hook/merchant"


@pytest.mark.parametrize(("kind", "site_id", "typed"), KINDS)
async def test_a_run_fails_tells_is_tried_again_and_goes_live(
    provision: Provision,
    sites: Sites,
    forge: ForgeServer,
    told_at: str,
    kind: str,
    site_id: str,
    typed: Any,
) -> None:
    await add(sites, kind, site_id, told_at)
    run = await run_of(typed)
    forge.spoil("POST", Spoilt(422))
    failed = await retry(run.id)
    assert failed.name == "Failed", failed.message

    ((entered, attempt, failure),) = await sites.rows(
        "SELECT site_id, attempt, id FROM terminal_failures"
    )
    assert entered == site_id
    ids = stable_ids(site_id, attempt)
    assert failure == ids["failure_id"], "the same as a sweep's, and after a failover"
    owed = await sites.rows("SELECT id, kind, body, delivered_at IS NOT NULL FROM notices")
    assert {(id_, kind_) for id_, kind_, _, _ in owed} == {
        (ids["webhook_id"], "webhook"),
        (ids["teardown_id"], "teardown"),
    }
    assert all(delivered for *_, delivered in owed), "at once"
    named = {json.loads(bytes(body))["data"]["site_id"] for _, _, body, _ in owed}
    assert named == {int(site_id) if kind == "bigint" else site_id}

    live = await retry(run.id)
    assert live.name == "Live", live.message
    assert live.message == f"Site {site_id} is live as the upstream's 100."


@pytest.mark.parametrize(("kind", "site_id", "typed"), KINDS)
async def test_a_run_that_is_stopped_fails_its_attempt(
    provision: Provision, sites: Sites, told_at: str, kind: str, site_id: str, typed: Any
) -> None:
    await add(sites, kind, site_id, told_at)
    run = await run_of(typed)
    attempt = await begin(sites.engine, typed, run_id=str(run.id))
    await fail_stopped_run(flow=provision_site, flow_run=run, state=Crashed())
    assert await sites.rows("SELECT site_id, id FROM terminal_failures") == [
        (site_id, stable_ids(site_id, attempt)["failure_id"])
    ]
    await sites.run("DELETE FROM sites")
    await fail_stopped_run(flow=provision_site, flow_run=run, state=Crashed())


@pytest.mark.parametrize("typed", ["", "no\nnumber\u202e", "x" * 5000, str(UUID(int=0)), -1])
async def test_an_id_that_no_site_has_is_told_in_one_line(
    provision: Provision, sites: Sites, typed: Any
) -> None:
    state = await retry((await run_of(typed)).id)
    assert state.name == "Failed"
    assert state.message
    assert state.message.startswith("Nothing was started: there is no site ")
    assert state.message.isprintable()
    assert len(state.message) < 200
