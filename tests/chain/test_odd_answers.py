"""Odd answers of an upstream, over a real HTTP server: read where they can be, and else told."""

import json
from typing import Any

import pytest

from provisioning.chain.upstream import Standing, Upstream, Watch
from provisioning.errors import NotYet, UpstreamRefused
from tests.chain.conftest import BOTH_VERSIONS
from tests.chain.forge_server import ForgeV1Server, Spoilt
from tests.chain.stub_server import StubServer
from tests.chain.test_forge import CLAIM, DOMAIN


@pytest.mark.guarantee(
    fault="pages of an upstream's list that lead back to an earlier page",
    holds="they are left at once, and told",
    guard=(
        "the cursors that were seen: without them the same page is asked for until the "
        "upstream answers otherwise"
    ),
)
@pytest.mark.parametrize("cursors", [["a", "a"], ["a", "b", "a"], [1, 2, 3, 2]])
async def test_pages_that_lead_back_to_an_earlier_one_are_left_at_once(
    forge: StubServer, client: Upstream, cursors: list[Any]
) -> None:
    for cursor in cursors:
        page = {"data": [], "meta": {"next_cursor": cursor}}
        forge.spoil("GET", Spoilt(200, body=json.dumps(page)))
    with pytest.raises(UpstreamRefused, match="leads back to an earlier page"):
        await client.find(DOMAIN, CLAIM.marker)
    assert len(forge.asked) == len(cursors)


@pytest.mark.guarantee(
    fault="null where an upstream's answer could hold something",
    holds="it counts as missing",
    guard="the nulls left in: 'has another shape', eight times",
)
@pytest.mark.parametrize(
    "resource",
    [
        {"id": 100, "attributes": {"name": DOMAIN, "status": None}, "relationships": None},
        {"id": "100", "attributes": {"name": DOMAIN}, "relationships": {"tags": None}},
        {"id": 100, "attributes": {"name": DOMAIN}, "relationships": {"tags": {"data": None}}},
        {"id": 100, "type": None, "attributes": {"name": DOMAIN, "aliases": None}, "links": None},
    ],
)
@pytest.mark.parametrize("rest", [{}, {"included": None, "meta": None, "links": None}])
async def test_what_is_null_counts_as_missing(
    forge: StubServer, client: Upstream, resource: Any, rest: Any
) -> None:
    nameless = {"id": 7, "attributes": {"name": None}}
    page = {"data": [nameless, resource], **rest}
    forge.spoil("GET", Spoilt(200, body=json.dumps(page)))
    (found,) = await client.find(DOMAIN, CLAIM.marker)
    assert (found.id, found.standing, found.marks) == ("100", Standing.COMING, frozenset())


@pytest.mark.parametrize("forge", [ForgeV1Server], indirect=True)
async def test_a_site_without_a_name_hides_no_other_one(
    forge: StubServer, client: Upstream
) -> None:
    forge.sites += [{"id": 7, "name": None}, {"id": 100, "name": DOMAIN}]
    (found,) = await client.find(DOMAIN, CLAIM.marker)
    assert found.id == "100"


async def test_a_tag_is_found_by_its_type_and_its_id(forge: StubServer, client: Upstream) -> None:
    tags = {"tags": {"data": [{"type": "tag", "id": 5}]}}
    resource = {"id": 100, "attributes": {"name": DOMAIN}, "relationships": tags}
    page = {
        "data": [resource],
        "included": [
            {"type": "tag", "id": "5", "attributes": {"name": CLAIM.marker}},
            {"type": "server", "id": 5, "attributes": {"name": "another"}},
            {"type": "tag", "id": 6, "attributes": None},
        ],
    }
    forge.spoil("GET", Spoilt(200, body=json.dumps(page)))
    (found,) = await client.find(DOMAIN, CLAIM.marker)
    assert found.marks == {CLAIM.marker}


@pytest.mark.guarantee(
    fault="a page of something between chain and upstream, with the status of a success",
    holds="the chain asks again",
    guard="no JSON taken for a refusal: each of the 20 pages fails the attempt",
)
@BOTH_VERSIONS
@pytest.mark.parametrize(
    "body", ["", "<html>We will be back soon.</html>", "\ufeff{", '{"data": ', "[" * 9000]
)
@pytest.mark.parametrize("status", [200, 203])
async def test_a_page_of_something_in_between_passes(
    forge: StubServer, client: Upstream, body: str, status: int
) -> None:
    """A maintenance page with the status of a success, or an answer that was cut."""
    for method in ("GET", "POST"):
        forge.spoil(method, *[Spoilt(status, {"content-type": "text/html"}, body)] * 2)
    with pytest.raises(NotYet, match=r"to GET /\S+ is no JSON"):
        await client.read("100")
    with pytest.raises(NotYet, match=r"to GET /\S+ is no JSON"):
        await client.find(DOMAIN, CLAIM.marker)
    with pytest.raises(NotYet, match=r"to POST /\S+ is no JSON"):
        await client.create(DOMAIN, CLAIM.marker)


@pytest.mark.guarantee(
    fault="an answer of the upstream without an end",
    holds="it is read as far as 16 MB, and told",
    guard="read to its end, it takes the call's whole time: 'no answer'",
)
@BOTH_VERSIONS
async def test_an_answer_without_an_end_is_not_read_to_its_end(
    forge: StubServer, client: Upstream
) -> None:
    endless = Spoilt(200, body='{"data": [], "sites": [', endless=True)
    forge.spoil("GET", endless)
    with pytest.raises(UpstreamRefused, match=r"to GET /\S+ is too long to be read: {.data"):
        await client.find(DOMAIN, CLAIM.marker)
    forge.spoil("POST", endless)
    with pytest.raises(NotYet, match="too long to be read"):
        await client.create(DOMAIN, CLAIM.marker)


@BOTH_VERSIONS
async def test_an_answer_that_can_not_be_unpacked_passes(
    forge: StubServer, client: Upstream
) -> None:
    forge.spoil("GET", Spoilt(200, {"content-encoding": "gzip"}, "no gzip"))
    with pytest.raises(NotYet, match=r"no answer to GET .* \(DecodingError\)"):
        await client.find(DOMAIN, CLAIM.marker)


@pytest.mark.guarantee(
    fault="a site that somebody removes at the upstream while its chain waits",
    holds="the attempt fails and says so",
    guard="Watch.seen: without it the 404 is waited out as that of a new site",
)
@BOTH_VERSIONS
async def test_a_site_that_was_there_and_is_gone_does_not_come_back(
    forge: StubServer, client: Upstream
) -> None:
    forge.status = "installing"
    watch = Watch(client, "100")
    with pytest.raises(NotYet, match="answered 404"):
        await watch.require_ready()
    forge.sites.append({"id": 100, "name": DOMAIN})
    with pytest.raises(NotYet, match="'installing'"):
        await watch.require_ready()
    forge.sites.clear()
    with pytest.raises(UpstreamRefused, match=r"answered 404 .*, so somebody has removed it$"):
        await watch.require_ready()
