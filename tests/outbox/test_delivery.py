"""What is owed is delivered: surely, once at a time, and with one id. F13, F17, F19 and F22."""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from time import monotonic, sleep
from typing import Any
from uuid import UUID

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from provisioning.outbox import delivery, dispatcher, sender
from provisioning.outbox.claims import claim, record
from provisioning.outbox.delivery import deliver
from provisioning.outbox.retry_policy import Fate, Verdict
from provisioning.outbox.signing import keys
from tests.commands import ROOT
from tests.outbox.owing import SECRET, TEARDOWN_SECRET, Owing, config
from tests.outbox.receivers import Behaviour, Receiver, answering, dripping, flooding, hanging
from tests.sites import as_json, site

pytestmark = pytest.mark.heart

NOTICE_ID = UUID(int=1)


async def test_a_webhook_is_accepted_by_the_specifications_own_library(
    owing: Owing, receiver: Receiver
) -> None:
    await owing.fail(1, receiver.url("/hook?token=1"), domain="bücher-ÄÖ-日本.example")
    deliveries = await owing.sweep()
    assert [notice.site_id for notice in deliveries.delivered] == [str(site(1))]
    (request,) = receiver.requests
    payload = Webhook(SECRET).verify(request.body, request.headers)
    assert payload["type"] == "site.provision_failed"
    assert payload["data"]["domain"] == "bücher-ÄÖ-日本.example"
    assert payload["data"]["attempt"] == "2025-01-15T14:00:00Z"
    notice = await owing.notice(1)
    assert request.notice_id == str(notice.id)
    assert request.body == notice.body
    assert (notice.attempts, notice.last_error) == (1, None)
    assert notice.delivered_at is not None
    assert request.headers["content-type"] == "application/json"


async def test_a_changed_body_is_not_accepted(owing: Owing, receiver: Receiver) -> None:
    await owing.fail(1, receiver.url())
    await owing.sweep()
    (request,) = receiver.requests
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(request.body.replace(b"1", b"2"), request.headers)


async def test_without_a_secret_a_notice_is_sent_unsigned(owing: Owing, receiver: Receiver) -> None:
    owing.config = config(secret=None)
    await owing.fail(1, receiver.url())
    assert len((await owing.sweep()).delivered) == 1
    (request,) = receiver.requests
    assert "webhook-signature" not in request.headers
    assert {"webhook-id", "webhook-timestamp"} <= request.headers.keys()


def test_a_moment_in_another_zone_is_signed_as_it_is_sent() -> None:
    elsewhere = datetime.fromisoformat("2025-01-15T17:30:00.999999+02:00")
    headers = sender.signed(NOTICE_ID, elsewhere, b"{}", keys(SECRET))
    assert headers["webhook-timestamp"] == "1736955000"
    utc = elsewhere.astimezone(UTC)
    assert headers["webhook-signature"] == Webhook(SECRET).sign(str(NOTICE_ID), utc, "{}")


async def test_a_site_without_a_webhook_owes_none(owing: Owing) -> None:
    await owing.fail(1, None)
    await owing.fail(2, " \t\n ")
    assert await owing.sites.notices() == []
    assert str(await owing.sweep()) == "no notices owed"


@pytest.mark.guarantee(
    fault="a teardown that fails (F13)",
    holds="owed, and delivered by the next sweep",
)
async def test_f13_an_owed_teardown_is_delivered_by_the_next_sweep(
    owing: Owing, receiver: Receiver, platform: Receiver
) -> None:
    owing.config = config(teardown_url=platform.url("/teardown"))
    platform.behaviours = [answering(500)]
    await owing.fail(7, receiver.url(), teardown=True)

    first = await owing.sweep()
    assert (first.teardowns_owed, first.webhooks_owed, len(first.delivered)) == (1, 0, 1)
    assert [(n.kind, n.site_id, n.attempts, n.last_error) for n in first.owed] == [
        ("teardown", str(site(7)), 1, "answered 500")
    ]
    in_between = await owing.sweep()
    assert in_between.teardowns_owed == 1, "it waits for its time, and is owed all the same"
    assert len(platform.requests) == 1

    await owing.later()
    second = await owing.sweep()
    assert (second.teardowns_owed, len(second.delivered)) == (0, 1)
    assert len(receiver.requests) == 1

    one, two = platform.requests
    assert one.notice_id == two.notice_id
    assert one.body == two.body
    payload = Webhook(TEARDOWN_SECRET).verify(two.body, two.headers)
    assert payload["type"] == "site.teardown_requested"
    data = json.loads(two.body)["data"]
    assert (data["site_id"], data["attempt"]) == (as_json(site(7)), "2025-01-15T14:00:00Z")
    (failure,) = await owing.sites.rows("SELECT id FROM terminal_failures")
    assert data["failure_id"] == str(failure.id)


async def test_a_trusted_teardown_reaches_a_private_address(
    owing: Owing, platform: Receiver
) -> None:
    owing.config = config(teardown_url=platform.url(), private=False)
    await owing.fail(1, None, teardown=True)
    assert len((await owing.sweep()).delivered) == 1


async def test_a_teardown_with_nowhere_to_go_stays_owed_and_says_so(
    owing: Owing, receiver: Receiver, platform: Receiver
) -> None:
    await owing.fail(1, receiver.url(), teardown=True)
    for _ in range(2):
        deliveries = await owing.sweep()
        assert deliveries.teardowns_owed == 1
        assert [n.last_error for n in deliveries.owed] == ["PROVISION_TEARDOWN_URL is not set"]
        assert deliveries.not_reached == 0
    assert (await owing.notice(1, "teardown")).attempts == 0
    assert len(receiver.requests) == 1

    owing.config = config(teardown_url=platform.url())
    assert (await owing.sweep()).teardowns_owed == 0
    assert len(platform.requests) == 1


async def test_teardowns_with_nowhere_to_go_keep_no_webhook_from_being_sent(
    owing: Owing, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.outbox.owing.TAKEN_UP", 5)
    for site_id in range(1, 9):
        await owing.fail(site_id, None, teardown=True)
    await owing.fail(9, receiver.url())
    deliveries = await owing.sweep()
    assert [notice.site_id for notice in deliveries.delivered] == [str(site(9))]
    assert deliveries.teardowns_owed == 8


@pytest.mark.parametrize(
    ("answer", "wait"),
    [
        (lambda: answering(429, retry_after="7200"), 7200),
        (lambda: answering(503, retry_after="7200"), 7200),
        (lambda: answering(503, retry_after=http_date(timedelta(hours=3))), 10800),
        (lambda: answering(500), 240),
        (lambda: answering(500, retry_after="7200"), 7200),
    ],
)
async def test_f22_the_next_attempt_is_not_before_its_time(
    owing: Owing, receiver: Receiver, answer: Callable[[], Behaviour], wait: int
) -> None:
    receiver.default = answer()
    await owing.fail(1, receiver.url())
    assert (await owing.sweep()).webhooks_owed == 1
    assert wait - 60 <= (await owing.notice(1)).wait <= 1.2 * wait
    assert (await owing.sweep()).webhooks_owed == 1
    assert len(receiver.requests) == 1


def http_date(ahead: timedelta) -> str:
    """A moment from now on, as HTTP writes it."""
    return format_datetime(datetime.now(UTC) + ahead, usegmt=True)


async def test_f22_gone_is_given_up_at_once(owing: Owing, receiver: Receiver) -> None:
    receiver.default = answering(410)
    await owing.fail(1, receiver.url())
    deliveries = await owing.sweep()
    assert (deliveries.webhooks_owed, deliveries.given_up_now) == (0, 1)
    assert deliveries.given_up[0].last_error == "answered 410: the receiver wants no more"
    await owing.later()
    later = await owing.sweep()
    assert (later.given_up_now, later.given_up_total) == (0, 1)
    assert later.given_up[0].site_id == str(site(1)), "shown for a day"
    assert len(receiver.requests) == 1


async def test_a_dead_receiver_is_given_up_after_about_three_days(
    owing: Owing, receiver: Receiver
) -> None:
    receiver.default = answering(500)
    await owing.fail(1, receiver.url())
    for _ in range(30):
        await owing.sweep()
        notice = await owing.notice(1)
        if notice.given_up_at:
            break
        await owing.sites.run(
            "UPDATE terminal_failures SET failed_at = failed_at - make_interval(secs => :wait)",
            wait=notice.wait,
        )
        await owing.later()
    assert len(receiver.requests) in (9, 10, 11), "the waits are drawn out by chance"
    assert len({request.notice_id for request in receiver.requests}) == 1
    assert len({request.body for request in receiver.requests}) == 1
    assert notice.last_error == f"answered 500, after {len(receiver.requests)} attempts"


@pytest.mark.guarantee(
    fault="a receiver that sends a byte every two seconds (F17)",
    holds="cut at the deadline; nobody else waits",
    guard="bounded sends: without the deadline, the round takes 52 seconds instead of 8",
)
async def test_f17_a_slow_receiver_is_cut_off_and_delays_nobody(
    owing: Owing, receiver: Receiver, platform: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "DEADLINE", 8.0)
    receiver.default = dripping
    await owing.fail(1, receiver.url())
    for site_id in range(2, 30):
        await owing.fail(site_id, platform.url())
    started = monotonic()
    sweep = asyncio.create_task(owing.sweep())
    while len(platform.requests) < 28:
        await asyncio.sleep(0.01)
        assert monotonic() - started < 7, "the others were delayed"
    deliveries = await sweep
    assert monotonic() - started < 16
    assert len(deliveries.delivered) == 28
    assert (await owing.notice(1)).last_error == "no answer (none within 8 seconds)"


async def test_an_answer_without_end_is_not_read(owing: Owing, receiver: Receiver) -> None:
    receiver.default = flooding
    await owing.fail(1, receiver.url())
    started = monotonic()
    assert len((await owing.sweep()).delivered) == 1
    assert monotonic() - started < 2


async def test_names_whose_servers_hang_are_cut_off_and_delay_nobody(
    owing: Owing, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve = socket.getaddrinfo

    def hang(host: Any, *arguments: Any, **options: Any) -> Any:
        if host.startswith(b"hanging"):
            sleep(8)
        return resolve(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    monkeypatch.setattr(sender, "DEADLINE", 5.0)
    for site_id in range(1, 16):
        await owing.fail(site_id, f"https://hanging-{site_id}.example/")
    for site_id in range(16, 56):
        await owing.fail(site_id, receiver.url())
    started = monotonic()
    deliveries = await owing.sweep()
    assert monotonic() - started < 12
    assert len(deliveries.delivered) == 40


async def test_of_200_owed_of_which_20_hang_180_are_delivered_within_the_bound(
    owing: Owing, receiver: Receiver, platform: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "DEADLINE", 2.0)
    platform.default = hanging
    for site_id in range(1, 201):
        await owing.fail(site_id, (platform if site_id % 10 == 0 else receiver).url())
    started = monotonic()
    deliveries = await owing.sweep()
    assert monotonic() - started < 30
    assert len(deliveries.delivered) == 180
    assert len(receiver.requests) == 180
    assert deliveries.webhooks_owed == 20
    assert sorted({n.last_error for n in deliveries.owed}) == [
        "",
        "no answer (none within 2 seconds)",
    ]
    assert len(platform.requests) == 1, "it hung, and was left alone for the rest of the round"


async def test_what_a_round_does_not_get_to_stays_owed(
    owing: Owing, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "DEADLINE", 1.0)
    monkeypatch.setattr(dispatcher, "BEGIN_WITHIN", 0.5)
    receiver.default = hanging
    for site_id in range(1, 51):
        await owing.fail(site_id, receiver.url())
    started = monotonic()
    deliveries = await owing.sweep()
    assert monotonic() - started < 2.5
    assert (deliveries.webhooks_owed, deliveries.not_reached) == (50, 49)
    assert sorted(n.attempts for n in deliveries.owed) == [0] * 49 + [1]
    receiver.default = answering(204)
    monkeypatch.setattr(dispatcher, "BEGIN_WITHIN", 30.0)
    assert len((await owing.sweep()).delivered) == 49


@pytest.mark.guarantee(
    fault="three rounds of deliveries at once (F14)",
    holds="40 requests for 40 notices",
    guard="without the condition of the claim, two sweeps send twice: 38 requests for 20 notices",
)
async def test_two_sweeps_at_once_never_send_a_notice_twice(
    owing: Owing, receiver: Receiver
) -> None:
    for site_id in range(1, 41):
        await owing.fail(site_id, receiver.url())

    async def slowly(_request: object, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.05)
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")

    receiver.default = slowly
    sweeps = await asyncio.gather(*(owing.sweep() for _ in range(3)))
    ids = [request.notice_id for request in receiver.requests]
    assert (len(ids), len(set(ids))) == (40, 40)
    assert sum(len(deliveries.delivered) for deliveries in sweeps) == 40


async def test_a_teardown_in_another_senders_hands_is_not_called_owed(
    owing: Owing, platform: Receiver
) -> None:
    owing.config = config(teardown_url=platform.url())
    await owing.fail(1, None, teardown=True)
    assert await claim(owing.engine, await owing.notice_id(1, "teardown")) is not None
    meanwhile = await owing.sweep()
    assert (meanwhile.teardowns_owed, meanwhile.owed) == (0, ())
    await owing.later()
    assert len((await owing.sweep()).delivered) == 1


async def test_nothing_is_held_in_the_database_while_the_network_is_used(
    owing: Owing, receiver: Receiver
) -> None:
    held: list[int] = []

    async def look(_request: object, writer: asyncio.StreamWriter) -> None:
        rows = await owing.sites.rows(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND pid <> pg_backend_pid() AND state <> 'idle'"
        )
        held.append(rows[0][0])
        held.append(owing.engine.pool.checkedout())  # type: ignore[attr-defined]
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")

    receiver.default = look
    await owing.fail(1, receiver.url())
    assert len((await owing.sweep()).delivered) == 1
    assert held == [0, 0]


async def test_a_late_result_does_not_overwrite_a_later_attempt(
    owing: Owing, receiver: Receiver
) -> None:
    await owing.fail(1, receiver.url())
    notice_id = await owing.notice_id(1)
    first = await claim(owing.engine, notice_id)
    await owing.later()
    second = await claim(owing.engine, notice_id)
    assert first is not None
    assert second is not None
    await record(owing.engine, notice_id, first.attempts, Verdict(Fate.GIVEN_UP, "late"), "")
    assert (await owing.notice(1)).given_up_at is None
    await record(
        owing.engine, notice_id, second.attempts, Verdict(Fate.GIVEN_UP, "answered 410"), ""
    )
    await record(
        owing.engine, notice_id, first.attempts, Verdict(Fate.DELIVERED, "answered 204"), ""
    )
    notice = await owing.notice(1)
    assert notice.delivered_at is not None, "that it arrived is true, whoever says so"
    assert notice.given_up_at is None


async def test_a_notice_whose_delivery_breaks_stays_owed_and_stops_no_other(
    owing: Owing, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await owing.fail(1, receiver.url("/1"))
    await owing.fail(2, receiver.url("/2"))
    broken = await owing.notice_id(1)

    async def breaking(engine: object, notice_id: object, *arguments: object) -> None:
        if notice_id == broken:
            raise RuntimeError("the database went away")
        await record(engine, notice_id, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(delivery, "record", breaking)
    deliveries = await owing.sweep()
    assert [notice.site_id for notice in deliveries.delivered] == [str(site(2))]
    assert deliveries.webhooks_owed == 1
    assert deliveries.owed[0].last_error == "no result was recorded (RuntimeError)"


POINTS = ["before the claim", "before sending", "after sending", "before recording"]


@pytest.mark.parametrize("point", [*POINTS, "after recording"])
@pytest.mark.guarantee(
    fault="a sender killed at any point (F19)",
    holds="sent later, same id, same bytes",
)
async def test_f19_a_sender_killed_at_any_point_loses_nothing(
    owing: Owing, receiver: Receiver, database_url: str, point: str
) -> None:
    await owing.fail(1, receiver.url())
    notice_id = await owing.notice_id(1)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(ROOT / "tests/outbox/dying_sender.py"),
        point,
        database_url,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert await process.wait() == -signal.SIGKILL

    if point not in ("before the claim", "after recording"):
        assert len((await owing.sweep()).delivered) == 0, "the lease still runs"
        assert 0 < (await owing.notice(1)).wait <= 60
        await owing.later()
    await owing.sweep()

    ids = [request.notice_id for request in receiver.requests]
    sent_before = point in ("after sending", "before recording", "after recording")
    sent_after = point != "after recording"
    assert ids == [str(notice_id)] * (sent_before + sent_after)
    assert len({request.body for request in receiver.requests}) == 1
    for request in receiver.requests:
        Webhook(SECRET).verify(request.body, request.headers)
    assert (await owing.notice(1)).delivered_at is not None


async def test_an_attempt_counts_from_its_claim_on(owing: Owing, receiver: Receiver) -> None:
    await owing.fail(1, receiver.url())
    await claim(owing.engine, await owing.notice_id(1))
    await owing.later()
    assert len((await owing.sweep()).delivered) == 1
    assert (await owing.notice(1)).attempts == 2


async def test_a_settled_notice_is_not_sent_again(owing: Owing, receiver: Receiver) -> None:
    await owing.fail(1, receiver.url())
    (notice,) = (await owing.sweep()).delivered
    await owing.later()
    assert (await deliver(owing.engine, notice, owing.config)).verdict is None
    assert len(receiver.requests) == 1
