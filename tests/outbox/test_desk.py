"""What a person does with notices: G23, sending again, acknowledging, and what is deleted."""

import re
from uuid import UUID, uuid4

import pytest
from standardwebhooks import Webhook

from provisioning.outbox.claims import claim, prune
from provisioning.outbox.desk import Chosen, Standing, acknowledge, look_up, resend
from tests.commands import ROOT
from tests.outbox.owing import SECRET, Owing, config
from tests.outbox.receivers import Receiver, answering

FIRST = 3_000_000_001
OLD = "now() - interval '91 days'"
EVERYTHING = Chosen(all=True)


async def give_up(owing: Owing) -> None:
    """Five tries over a week, as if nobody had looked."""
    await owing.sites.run("UPDATE terminal_failures SET failed_at = now() - interval '7 days'")
    for _ in range(5):
        await owing.later()
        await owing.sweep()


@pytest.mark.parametrize("status", [404, 409])
@pytest.mark.guarantee(
    fault="a teardown endpoint that answers 404 or 409 to everything (G23)",
    holds="owed, then given up, and said of every sweep until somebody acknowledges it",
    guard="when 404 counted as torn down, a mistyped path delivered every teardown",
)
async def test_g23_a_teardown_that_was_given_up_counts_until_it_is_acknowledged(
    owing: Owing, platform: Receiver, status: int
) -> None:
    platform.default = answering(status)
    owing.config = config(teardown_url=platform.url("/mistyped"))
    await owing.fail(FIRST, None, teardown=True)
    assert (await owing.sweep()).teardowns_owed == 1
    await give_up(owing)
    await owing.sites.run(f"UPDATE notices SET given_up_at = {OLD}")
    for _ in range(2):
        deliveries = await owing.sweep()
        assert (deliveries.teardowns_owed, deliveries.teardowns_given_up) == (0, 1)
        assert str(deliveries) == "1 teardown given up and not acknowledged"
        assert [notice.site_id for notice in deliveries.given_up] == [str(FIRST)]
        assert await prune(owing.engine) == 0
    notice_id = await owing.notice_id(FIRST, "teardown")
    assert await acknowledge(owing.engine, Chosen(ids=[uuid4()])) == []
    assert await acknowledge(owing.engine, Chosen(ids=[notice_id])) == [notice_id]
    assert (await owing.sweep()).quiet
    ((standing, _),) = await look_up(owing.engine, EVERYTHING)
    assert standing is Standing.ACKNOWLEDGED
    assert await prune(owing.engine) == 1


async def test_a_teardown_that_was_given_up_is_sent_again_once_the_setting_is_mended(
    owing: Owing, platform: Receiver
) -> None:
    platform.behaviours = [answering(404)] * 5
    owing.config = config(teardown_url=platform.url("/mistyped"))
    await owing.fail(FIRST, None, teardown=True)
    await give_up(owing)
    assert (await owing.sweep()).teardowns_given_up == 1
    owing.config = config(teardown_url=platform.url("/right"))
    assert len(await resend(owing.engine, EVERYTHING)) == 1
    deliveries = await owing.sweep()
    assert (len(deliveries.delivered), deliveries.teardowns_given_up) == (1, 0)
    assert len({request.notice_id for request in platform.requests}) == 1
    assert len({request.body for request in platform.requests}) == 1


async def test_a_webhook_is_sent_again_to_what_the_metadata_says_by_now(
    owing: Owing, receiver: Receiver
) -> None:
    await owing.fail(FIRST, "https://[mistyped/", key="no key")
    await owing.fail(FIRST + 1, "https://[mistyped/")
    await owing.fail(FIRST + 2, "https://[mistyped/")
    assert (await owing.sweep()).given_up_now == 3
    await owing.sites.run(
        "UPDATE sites SET metadata = jsonb_set(jsonb_set(metadata, '{provision,webhook}', "
        "to_jsonb(CAST(:url AS text))), '{provision,webhook_secret}', to_jsonb(CAST(:key AS text)))"
        " WHERE id = :id",
        url=receiver.url("/mended"),
        key=SECRET,
        id=FIRST,
    )
    await owing.sites.run("DELETE FROM sites WHERE id = :id", id=FIRST + 1)
    await owing.sites.run("UPDATE sites SET metadata = '{}' WHERE id = :id", id=FIRST + 2)
    owing.config = config(secret=None)
    assert await resend(owing.engine, EVERYTHING) == [await owing.notice_id(FIRST)]
    assert len((await owing.sweep()).delivered) == 1
    (request,) = receiver.requests
    Webhook(SECRET).verify(request.body, request.headers)


async def test_notices_are_chosen_by_id_and_by_host_in_any_spelling(owing: Owing) -> None:
    owing.config = config(private=False)
    for n, url in enumerate(
        [
            "https://Bücher.EXAMPLE:8443/a",
            "https://user:pass@xn--bcher-kva.example/b",
            "https://10.0.0.1/c",
            "https://other.example/bücher.example",
        ]
    ):
        await owing.fail(FIRST + n, url, teardown=True)
    await owing.sweep()

    async def chosen(chosen: Chosen) -> list[int]:
        found = await look_up(owing.engine, chosen)
        return [int(notice.site_id) - FIRST for _, notice in found]

    assert await chosen(Chosen(host="bücher.example")) == [0, 1]
    assert await chosen(Chosen(host="XN--bcher-kva.example")) == [0, 1]
    assert await chosen(Chosen(host="10.0.0.1")) == [2], "given up, and known by what is kept"
    assert await chosen(Chosen(host="' OR true --")) == []
    assert await chosen(Chosen(ids=[await owing.notice_id(FIRST + 3)])) == [3]
    assert await chosen(Chosen()) == []
    assert await chosen(EVERYTHING) == [0, 1, 2, 3, 0, 1, 2, 3]


async def test_what_is_being_sent_is_not_sent_again(owing: Owing) -> None:
    await owing.fail(FIRST, "https://merchant.example/")
    notice_id: UUID = await owing.notice_id(FIRST)
    assert await claim(owing.engine, notice_id)
    assert await resend(owing.engine, EVERYTHING) == []


async def test_what_was_settled_long_ago_is_deleted_and_the_ledger_stays(
    owing: Owing, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("provisioning.outbox.claims.DELETED_AT_ONCE", 2)
    for n in range(7):
        await owing.fail(FIRST + n, receiver.url() if n < 5 else "https://[")
    await owing.sweep()
    assert await prune(owing.engine) == 0
    await owing.sites.run(f"UPDATE notices SET delivered_at = {OLD} WHERE delivered_at IS NOT NULL")
    await owing.sites.run(f"UPDATE notices SET given_up_at = {OLD} WHERE given_up_at IS NOT NULL")
    await owing.fail(FIRST + 100, receiver.url())
    await owing.sites.run("UPDATE terminal_failures SET failed_at = '2025-01-01'")
    assert await prune(owing.engine) == 7
    assert len(await owing.sites.notices()) == 1
    assert len(await owing.sites.ledger()) == 8


async def test_the_page_of_notices_says_the_same_in_sql(
    owing: Owing, receiver: Receiver, platform: Receiver
) -> None:
    """The statements of docs/notices.md, as they are printed there."""
    (block,) = re.findall(r"```sql\n(.*?)```", (ROOT / "docs/notices.md").read_text(), re.S)
    _, torn_down, webhook, done = (part for part in block.split(";") if part.strip())
    platform.behaviours = [answering(404)] * 5
    owing.config = config(teardown_url=platform.url(), private=False)
    await owing.fail(FIRST, receiver.url(), teardown=True)
    await give_up(owing)
    assert (await owing.sweep()).teardowns_given_up == 1
    for kind, statement in (("teardown", torn_down), ("webhook", webhook)):
        notice_id = await owing.notice_id(FIRST, kind)
        await owing.sites.run(statement.replace("…", str(notice_id)).replace("::text", r"\:\:text"))
    owing.config = config(teardown_url=platform.url())
    deliveries = await owing.sweep()
    assert len(deliveries.delivered) == 2
    await owing.sites.run(
        "UPDATE notices SET delivered_at = NULL, given_up_at = now() WHERE kind = 'teardown'"
    )
    notice_id = await owing.notice_id(FIRST, "teardown")
    await owing.sites.run(done.replace("…", str(notice_id)))
    assert (await owing.sweep()).teardowns_given_up == 0
