"""One notice never stops another, whatever a merchant or another program wrote into its row."""

import asyncio
import json
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from provisioning.http.addresses import is_public
from provisioning.outbox.dispatcher import Deliveries
from tests.outbox.owing import Network, Owing, config
from tests.outbox.receivers import Receiver
from tests.sites import number

CORPORA = Path(__file__).parent / "corpora"
URLS = {path.name: json.loads(path.read_text()) for path in sorted(CORPORA.glob("*.json"))}

FIRST = 3_000_000_001
HEALTHY = [FIRST + 1_000_000 + n for n in range(3)]
PUBLIC = "93.184.215.14"

# PostgreSQL holds neither in a text, nor does its JSON.
TEXT = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=80)
URL = st.one_of(
    TEXT,
    st.sampled_from([url for urls in URLS.values() for url in urls if "\x00" not in url]),
    TEXT.map(lambda text: f"https://{text}"),
    TEXT.map(lambda text: f"http://xn--{text}.example/"),
    st.integers(1_000, 60_000).map(lambda length: f"https://merchant.example/{'x' * length}"),
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), TEXT, URL),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(TEXT, inner, max_size=2)),
    max_leaves=4,
)
INSTANT = st.sampled_from(["-infinity", "infinity", "0044-03-15 BC", "294275-01-01", "2025-01-15"])
ROW = st.fixed_dictionaries(
    {},
    optional={
        "url": st.one_of(st.none(), URL),
        "secret": st.one_of(st.none(), TEXT),
        "receiver": TEXT,
        "body": st.one_of(st.binary(max_size=80), JSON.map(lambda it: json.dumps(it).encode())),
        "last_error": TEXT,
        "attempts": st.sampled_from([-1, 0, 7, 2**31 - 1]),
        "next_attempt_at": INSTANT,
        "kind": st.just("webhook"),
    },
)


async def surrounded(owing: Owing, network: Network, receiver: Receiver) -> None:
    """Three healthy merchants and a teardown, recorded after all others."""
    network.names["healthy.example"] = [PUBLIC]
    network.routes[PUBLIC] = receiver.port
    owing.config = config(private=False, teardown_url=receiver.url("/teardown"))
    for site_id in HEALTHY:
        await owing.fail(site_id, "http://healthy.example/")
    await owing.fail(FIRST, None, teardown=True)


def assert_healthy(deliveries: Deliveries, receiver: Receiver) -> None:
    """All that can be delivered was."""
    told = [request.site_id for request in receiver.requests if request.target == "/"]
    torn_down = [r.site_id for r in receiver.requests if r.target == "/teardown"]
    assert sorted(told) == [number(site_id) for site_id in HEALTHY]
    assert torn_down == [number(FIRST)]
    assert {notice.site_id for notice in deliveries.delivered} >= {str(s) for s in HEALTHY}
    assert deliveries.teardowns_owed == 0


@pytest.mark.parametrize("corpus", URLS)
@pytest.mark.guarantee(
    fault="968 URLs from the URL standard's tests and from a list of ways around filters",
    holds="each is that notice's matter; the healthy ones are delivered in the first sweep",
    guard="without its own `except`, a name that IDNA refuses ends the listing for everybody (G02)",
)
async def test_a_corpus_of_urls_stops_nobody(
    owing: Owing, network: Network, receiver: Receiver, corpus: str
) -> None:
    urls = [url for url in URLS[corpus] if "\x00" not in url]
    for first in range(0, len(urls), 20):
        await asyncio.gather(
            *(
                owing.fail(FIRST + 1 + first + n, url)
                for n, url in enumerate(urls[first : first + 20])
            )
        )
    await surrounded(owing, network, receiver)
    deliveries = await owing.sweep()
    assert_healthy(deliveries, receiver)
    inside = [address for address in network.dialled if not is_public(ip_address(address))]
    assert inside == ["127.0.0.1"], "the teardown, and nothing else that is not public"


@given(
    recorded=st.lists(st.tuples(JSON, JSON, TEXT), max_size=4),
    written=st.lists(ROW, max_size=6),
)
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@pytest.mark.guarantee(
    fault="arbitrary text and JSON as URL, secret, domain and body (G02, G03)",
    holds="the healthy merchants and the teardown beside it are served in the first sweep",
)
async def test_no_row_stops_another(
    owing: Owing,
    network: Network,
    receiver: Receiver,
    recorded: list[tuple[Any, Any, str]],
    written: list[dict[str, Any]],
) -> None:
    await owing.sites.run("TRUNCATE sites, terminal_failures, notices")
    receiver.requests.clear()
    for n, (webhook, key, domain) in enumerate(recorded, 1):
        await owing.fail(FIRST + n, webhook, key=key, domain=domain)
    for n, row in enumerate(written, 101):
        await owing.fail(FIRST + n, "https://merchant.example/")
        values = {**row, "site_id": str(FIRST + n)}
        columns = ", ".join(
            f"{name} = CAST(:{name} AS timestamptz)"
            if name.endswith("_at")
            else f"{name} = :{name}"
            for name in row
        )
        if columns:
            await owing.sites.run(
                f"UPDATE notices SET {columns} FROM terminal_failures f "
                "WHERE f.id = failure_id AND f.site_id = :site_id",
                **values,
            )
    await surrounded(owing, network, receiver)
    assert_healthy(await owing.sweep(), receiver)


async def test_g03_a_body_that_another_program_wrote_is_sent_as_it_is(
    owing: Owing, receiver: Receiver
) -> None:
    for site_id in (FIRST, FIRST + 1):
        await owing.fail(site_id, receiver.url())
    other = b'{"type": "other"}'
    await owing.sites.run(
        "UPDATE terminal_failures SET domain = NULL WHERE site_id = :site", site=str(FIRST)
    )
    notice_id = await owing.notice_id(FIRST)
    await owing.sites.run(
        "UPDATE notices SET body = :body WHERE id = :id", body=other, id=notice_id
    )
    deliveries = await owing.sweep()
    assert {str(notice) for notice in deliveries.delivered} == {
        f"webhook for site {FIRST} (no domain)",
        f"webhook for site {FIRST + 1} (shop-{FIRST + 1}.example)",
    }
    assert other in [request.body for request in receiver.requests]


async def test_g35_what_is_huge_is_cut_where_it_is_read_and_never_sent(
    owing: Owing, receiver: Receiver, network: Network
) -> None:
    huge = "x" * 8_000_000
    await owing.fail(FIRST, f"https://merchant.example/{huge}", key=huge, domain=huge)
    (kept,) = await owing.sites.rows(
        "SELECT length(url) AS url, length(secret) AS secret, length(body) AS body, "
        "length(domain) AS domain FROM notices JOIN terminal_failures f ON f.id = failure_id"
    )
    assert (kept.url, kept.secret, kept.domain) == (2_049, 1_025, 255)
    assert kept.body < 1_000
    for n, column in enumerate(["url", "secret", "body", "last_error"], 1):
        await owing.fail(FIRST + n, receiver.url())
        value = "convert_to(:huge, 'UTF8')" if column == "body" else ":huge"
        notice_id: UUID = await owing.notice_id(FIRST + n)
        await owing.sites.run(
            f"UPDATE notices SET {column} = {value} WHERE id = :id", huge=huge, id=notice_id
        )
    deliveries = await owing.sweep()
    assert [notice.site_id for notice in deliveries.delivered] == [str(FIRST + 4)]
    assert {notice.last_error for notice in deliveries.given_up} == {
        "malformed: not an http or https URL with a host",
        "provision.webhook_secret is no signing key: no signing key",
        "its body is longer than 65,536 bytes",
    }
    assert len(repr(deliveries)) < 10_000
