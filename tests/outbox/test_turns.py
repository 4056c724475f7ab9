"""No receiver, however slow and however often owed, delays another: G19."""

from time import monotonic

import pytest

from provisioning.outbox import dispatcher, sender
from provisioning.outbox.store import TAKEN_UP, list_owed
from tests.outbox.owing import Owing, config
from tests.outbox.receivers import Receiver, hanging, receiving

FIRST = 3_000_000_001


@pytest.mark.guarantee(
    fault="260 webhooks owed to a receiver that accepts and never answers (G19)",
    holds="a new merchant and the teardown are served in the first sweep; it is asked once",
    guard="without turns, all that are sent at once wait for it, and the sweep's time is up",
)
async def test_g19_a_receiver_that_hangs_is_asked_once_and_delays_nobody(
    owing: Owing, receiver: Receiver, platform: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "DEADLINE", 3.0)
    monkeypatch.setattr(dispatcher, "BEGIN_WITHIN", 10.0)
    owing.config = config(teardown_url=platform.url("/teardown"))
    async with receiving() as slow:
        slow.default = hanging
        for n in range(260):
            await owing.fail(FIRST + n, slow.url())
        await owing.sites.run("UPDATE notices SET next_attempt_at = now() - interval '1 hour'")
        await owing.fail(FIRST + 1_000, receiver.url(), teardown=True)
        deliveries = await owing.sweep()
        assert len(slow.requests) == 1
    assert {str(notice.kind) for notice in deliveries.delivered} == {"webhook", "teardown"}
    assert (deliveries.webhooks_owed, deliveries.teardowns_owed) == (260, 0)
    assert deliveries.not_reached == 259


async def test_more_hanging_receivers_than_are_asked_at_once_delay_no_new_merchant(
    owing: Owing, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were tried before, so whoever was not goes first."""
    monkeypatch.setattr(sender, "DEADLINE", 3.0)
    monkeypatch.setattr(dispatcher, "AT_ONCE", 5)
    monkeypatch.setattr(dispatcher, "BEGIN_WITHIN", 2.0)
    async with receiving() as slow:
        slow.default = hanging
        for n in range(30):
            await owing.fail(FIRST + n, slow.url().replace("127.0.0.1", f"127.0.0.{n + 1}"))
        await owing.sites.run("UPDATE notices SET attempts = 1, next_attempt_at = '2025-01-01'")
        await owing.fail(FIRST + 1_000, receiver.url())
        started = monotonic()
        deliveries = await owing.sweep()
        assert monotonic() - started < 10
    assert [notice.site_id for notice in deliveries.delivered] == [str(FIRST + 1_000)]


async def test_a_list_is_taken_up_in_turn_with_places_for_everybody(owing: Owing) -> None:
    for n in range(10):
        await owing.fail(FIRST + n, "https://busy.example/", teardown=True)
    await owing.sites.run("UPDATE notices SET next_attempt_at = '2025-01-01'")
    for n in range(10, 13):
        await owing.fail(FIRST + n, f"https://merchant-{n}.example/")
    taken = (await list_owed(owing.engine, 8, teardowns=True)).owed
    assert [notice.kind.value for notice in taken] == ["teardown"] * 4 + ["webhook"] * 4
    assert len({notice.receiver for notice in taken}) == 5
    everything = await list_owed(owing.engine, TAKEN_UP, teardowns=True)
    assert len(everything.owed) == 23


async def test_a_teardown_endpoint_that_hangs_delays_no_merchant(
    owing: Owing, receiver: Receiver, platform: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "DEADLINE", 3.0)
    platform.default = hanging
    owing.config = config(teardown_url=platform.url())
    for n in range(30):
        await owing.fail(FIRST + n, receiver.url(), teardown=True)
    deliveries = await owing.sweep()
    assert len(deliveries.delivered) == 30
    assert (deliveries.teardowns_owed, len(platform.requests)) == (30, 1)
