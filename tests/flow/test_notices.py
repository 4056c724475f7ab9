"""What whole sweeps owe and deliver. F13, F14 and F19, with real receivers."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from prefect.client.schemas.objects import StateType
from sqlalchemy.ext.asyncio import AsyncEngine
from standardwebhooks.webhooks import Webhook

from provisioning.failures import Source, fail_terminally
from provisioning.settings import settings
from tests.flow.conftest import Sweep
from tests.flow.traces import message, report_of, task_runs
from tests.outbox.owing import SECRET
from tests.outbox.receivers import Receiver, answering, receiving
from tests.sites import Sites, as_json, site

pytestmark = pytest.mark.heart


@pytest.fixture
async def platform(worker_environment: pytest.MonkeyPatch) -> AsyncIterator[Receiver]:
    """The platform's own endpoint for teardowns."""
    async with receiving() as receiver:
        worker_environment.setenv("PROVISION_TEARDOWN_URL", receiver.url("/teardown?token=s3cr3t"))
        settings.cache_clear()
        yield receiver


async def test_a_teardown_that_fails_is_owed_and_the_next_sweep_delivers_it(
    sweep: Sweep, sites: Sites, merchant: Receiver, platform: Receiver, prefect_api: str
) -> None:
    platform.behaviours = [answering(500)]
    await sites.add_started(1, provision={"webhook": merchant.url()})
    first = await sweep()
    assert (first.name, first.type) == ("Incomplete", StateType.FAILED)
    assert "1 notice delivered, 1 notice still owed (1 teardown)" in message(first)
    report = await report_of(first, prefect_api)
    assert "### Notices still owed" in report
    assert f"| {site(1)} | shop-1.example | teardown |" in report
    await sites.run("UPDATE notices SET next_attempt_at = now()")
    second = await sweep()
    assert (second.name, second.type) == ("Clean", StateType.COMPLETED)
    assert "1 notice delivered" in message(second)
    assert len(merchant.requests) == 1
    assert len({request.notice_id for request in platform.requests}) == 1
    assert len({request.body for request in platform.requests}) == 1
    assert "s3cr3t" not in report + message(first)


async def test_the_merchant_is_told_in_a_way_that_the_specification_accepts(
    sweep: Sweep, sites: Sites, merchant: Receiver
) -> None:
    await sites.add_started(1, provision={"webhook": merchant.url()})
    state = await sweep()
    (request,) = merchant.requests
    event = Webhook(SECRET).verify(request.body, request.headers)
    assert event["type"] == "site.provision_failed"
    assert event["data"]["site_id"] == as_json(site(1))
    (sent,) = await task_runs(state, "deliver_notice", 1)
    assert sent.name == f"deliver webhook for site {site(1)} (shop-1.example)"
    assert sent.state_name == "Delivered"


async def test_what_the_chain_left_owed_is_delivered_when_nothing_is_stuck_and_when_a_sweep_refuses(
    sweep: Sweep, sites: Sites, engine: AsyncEngine, merchant: Receiver
) -> None:
    async def fail_by_the_chain(site_id: int) -> None:
        attempt = await sites.add_started(site_id, provision={"webhook": merchant.url()})
        await fail_terminally(engine, site(site_id), attempt, reason="dns", source=Source.CHAIN)

    await fail_by_the_chain(1)
    assert (await sweep()).name == "Clean"
    await fail_by_the_chain(2)
    await sites.add_many(26, first=100)
    refused = await sweep()
    assert refused.name == "Refused", message(refused)
    assert "1 notice delivered" in message(refused)
    assert [request.site_id for request in merchant.requests] == [1, 2]


async def test_a_dry_run_sends_nothing(
    sweep: Sweep, sites: Sites, engine: AsyncEngine, merchant: Receiver
) -> None:
    attempt = await sites.add_started(1, provision={"webhook": merchant.url()})
    await fail_terminally(engine, site(1), attempt, reason="dns", source=Source.CHAIN)
    await sweep(dry_run=True)
    assert merchant.requests == []


async def test_two_sweeps_at_once_tell_each_merchant_once(
    sweep: Sweep, sites: Sites, merchant: Receiver
) -> None:
    for site_id in range(1, 21):
        await sites.add_started(site_id, provision={"webhook": merchant.url()})
    await asyncio.gather(sweep(), sweep())
    assert sorted(request.site_id for request in merchant.requests) == list(range(1, 21))
    assert len({request.notice_id for request in merchant.requests}) == 20


async def test_a_merchants_dead_webhook_reddens_nothing(
    sweep: Sweep, sites: Sites, merchant: Receiver, prefect_api: str
) -> None:
    merchant.default = answering(500)
    await sites.add_started(1, provision={"webhook": merchant.url("/?token=s3cr3t")})
    state = await sweep()
    assert (state.name, state.type) == ("Reaped", StateType.COMPLETED)
    report = await report_of(state, prefect_api)
    assert f"| {site(1)} | shop-1.example | webhook |" in report
    assert "s3cr3t" not in report + message(state)


async def test_a_blocked_address_is_given_up_and_the_site_is_failed_all_the_same(
    sweep: Sweep, sites: Sites, prefect_api: str
) -> None:
    await sites.add_started(1, provision={"webhook": "http://169.254.169.254/latest/meta-data"})
    state = await sweep()
    assert state.name == "Reaped"
    assert "1 notice given up" in message(state)
    assert "blocked" in await report_of(state, prefect_api)


async def test_owed_notices_that_cannot_be_looked_up_make_the_run_incomplete(
    sweep: Sweep, sites: Sites
) -> None:
    await sites.add_started(1)
    await sites.run("ALTER TABLE notices ALTER COLUMN attempts TYPE text")
    state = await sweep()
    assert (state.name, state.type) == ("Incomplete", StateType.FAILED), message(state)
    assert "1 reaped. Notices: not looked up and left to the next sweep" in message(state)
    assert await sites.ledger() == [1]


@pytest.mark.guarantee(
    fault="a merchant's webhook at a registered domain that IDNA refuses (G02)",
    holds="the others and the teardowns are served; a refusal stays Refused, with its report",
)
async def test_g02_a_name_that_can_not_be_decoded_stops_no_sweep(
    sweep: Sweep, sites: Sites, merchant: Receiver, platform: Receiver, prefect_api: str
) -> None:
    first = 3_000_000_001
    await sites.add_started(first, provision={"webhook": "https://xn--i-7iq.ws/hook?t=s3cr3t"})
    for n in range(1, 4):
        await sites.add_started(first + n, provision={"webhook": merchant.url()})
    state = await sweep()
    assert (state.name, state.type) == ("Reaped", StateType.COMPLETED), message(state)
    assert len(merchant.requests) == 3
    assert len(platform.requests) == 4
    report = await report_of(state, prefect_api)
    assert "xn--i-7iq.ws" in report
    assert "s3cr3t" not in report
    await sites.add_many(26, first=first + 100)
    refused = await sweep()
    assert refused.name == "Refused", message(refused)
    assert "26 stuck sites" in message(refused)
    assert "What to do" in await report_of(refused, prefect_api)
