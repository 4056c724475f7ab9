"""Which addresses a merchant's URL may lead to, and that no others are dialled: F15 and F16."""

from ipaddress import ip_address

import pytest

from provisioning.http.addresses import is_public
from provisioning.http.client import Answer, NoAnswer, Unsendable
from provisioning.outbox.dispatcher import Deliveries
from provisioning.outbox.sender import post
from tests.outbox.owing import Network, Owing, config
from tests.outbox.receivers import Receiver, answering, receiving
from tests.sites import site

PUBLIC = "93.184.215.14"

REFUSED = [
    "0.0.0.0",
    "10.0.0.1",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "203.0.113.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::7f00:1",
    "::ffff:10.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:93.184.215.14",
    "64:ff9b::10.0.0.1",
    "64:ff9b::169.254.169.254",
    "64:ff9b:1::1",
    "100::1",
    "2001:0:53aa:64c::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:0a00:1::1",
    "3fff::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
]

SPELLINGS = [
    "127.0.0.1",
    "127.1",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "127。0。0。1",
    "localhost",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[0:0:0:0:0:0:0:1]",
    "user:pass@127.0.0.1",
    "example.com@127.0.0.1",
    "0",
    "0177.1",
    "0x7f.0.0.0x1",
    "①②⑦.⓪.⓪.①",
]

MALFORMED = [
    "http://0177.0.0.1/",
    "http://127.0.0.1:65536/",
    "http://127.0.0.1:0/",
    "http://[::1/",
    "http://",
    "https:///path",
    "ftp://example.com/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:6379/_SET",
    "//example.com/",
    "example.com/hook",
    "javascript:alert(1)",
    "http://exa\nmple.com/",
    '{"url": "https://example.com"}',
    "true",
]


@pytest.mark.parametrize("address", REFUSED)
def test_is_not_public(address: str) -> None:
    assert not is_public(ip_address(address))


@pytest.mark.parametrize(
    "address", [PUBLIC, "1.1.1.1", "2606:2800:21f::1", "64:ff9b::93.184.215.14"]
)
def test_is_public(address: str) -> None:
    assert is_public(ip_address(address))


async def send(url: str) -> Answer | NoAnswer | Unsendable:
    return await post(url, {}, b"{}", trusted=False)


@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_no_spelling_of_loopback_is_dialled(
    spelling: str, receiver: Receiver, network: Network
) -> None:
    result = await send(f"http://{spelling}:{receiver.port}/")
    assert isinstance(result, Unsendable)
    assert result.reason.startswith("blocked: ")
    assert network.dialled == []
    assert receiver.connections == 0


@pytest.mark.parametrize("address", REFUSED)
async def test_a_name_for_it_is_not_dialled(address: str, network: Network) -> None:
    network.names["merchant.example"] = [address]
    result = await send("https://merchant.example/hook")
    assert isinstance(result, Unsendable)
    assert result.reason.startswith("blocked: https://merchant.example leads to ")
    assert network.dialled == []


@pytest.mark.parametrize("addresses", [[PUBLIC, "10.0.0.1"], ["::1", PUBLIC]])
async def test_one_private_address_among_public_ones_is_enough(
    addresses: list[str], network: Network
) -> None:
    network.names["merchant.example"] = addresses
    assert isinstance(await send("http://merchant.example/"), Unsendable)
    assert network.dialled == []


@pytest.mark.parametrize("url", MALFORMED)
async def test_what_is_no_url_is_not_sent(url: str, network: Network) -> None:
    result = await send(url)
    assert isinstance(result, Unsendable)
    assert result.reason.startswith("malformed: ")
    assert network.dialled == []


async def test_a_public_address_is_dialled_under_its_own_name(
    receiver: Receiver, network: Network
) -> None:
    network.names["xn--bcher-kva.example"] = [PUBLIC]
    network.routes[PUBLIC] = receiver.port
    result = await send("http://user:p%40ss@bücher.example:8080/hook?token=1")
    assert result == Answer(204, None)
    assert network.dialled == [PUBLIC]
    (request,) = receiver.requests
    assert (request.method, request.target) == ("POST", "/hook?token=1")
    assert request.headers["host"] == "xn--bcher-kva.example:8080"
    assert request.headers["authorization"] == "Basic dXNlcjpwQHNz"


async def test_a_name_that_changes_after_the_check_changes_nothing(
    receiver: Receiver, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [[PUBLIC], ["127.0.0.1"], ["127.0.0.1"]]

    class Rebinding(dict[str, list[str]]):
        def __getitem__(self, _name: str) -> list[str]:
            return answers.pop(0)

    network.names = Rebinding({"rebinding.example": []})
    result = await send(f"http://rebinding.example:{receiver.port}/")
    assert isinstance(result, NoAnswer)
    assert network.dialled == [PUBLIC]
    assert receiver.connections == 0


async def test_the_next_address_is_dialled_where_one_is_away(
    receiver: Receiver, network: Network
) -> None:
    network.names["merchant.example"] = ["2606:2800:21f::1", PUBLIC]
    network.routes[PUBLIC] = receiver.port
    assert await send("http://merchant.example/") == Answer(204, None)
    assert network.dialled == ["2606:2800:21f::1", PUBLIC]


async def test_no_environment_variable_leads_around_the_guard(
    receiver: Receiver, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"):
        monkeypatch.setenv(name, receiver.url(""))
    network.names["merchant.example"] = [PUBLIC]
    assert isinstance(await send("http://merchant.example/"), NoAnswer)
    assert receiver.connections == 0


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "2130706433", "[::ffff:127.0.0.1]", "10.0.0.1", "fd00::1"]
)
@pytest.mark.guarantee(
    fault="a receiver that redirects to loopback (F15)",
    holds="not followed",
)
async def test_f15_a_redirect_is_not_followed(
    status: int, host: str, receiver: Receiver, network: Network
) -> None:
    network.names["merchant.example"] = [PUBLIC]
    network.routes[PUBLIC] = receiver.port
    async with receiving() as inside:
        receiver.default = answering(status, location=f"http://{host}:{inside.port}/")
        assert await send("http://merchant.example/") == Answer(status, None)
        assert inside.connections == 0
    assert network.dialled == [PUBLIC]


async def test_f15_a_redirected_notice_is_still_owed(owing: Owing, receiver: Receiver) -> None:
    async with receiving() as inside:
        receiver.default = answering(302, location=inside.url())
        await owing.fail(1, receiver.url())
        deliveries = await owing.sweep()
        assert inside.connections == 0
    assert deliveries.webhooks_owed == 1
    notice = await owing.notice(1)
    assert notice.delivered_at is None
    assert notice.given_up_at is None
    assert notice.last_error == "answered 302: redirects are not followed"


@pytest.mark.parametrize("address", ["127.0.0.1", "::ffff:10.0.0.1", "169.254.169.254"])
@pytest.mark.guarantee(
    fault="a webhook to a private address (F16)",
    holds="never dialled; the site is failed all the same",
)
async def test_f16_a_blocked_notice_is_given_up_and_the_site_is_failed_all_the_same(
    owing: Owing, network: Network, address: str
) -> None:
    owing.config = config(private=False)
    network.names["merchant.example"] = [address]
    await owing.fail(1, "https://merchant.example/hook")
    deliveries: Deliveries = await owing.sweep()
    assert network.dialled == []
    assert await owing.sites.failed() == [1]
    assert deliveries.webhooks_owed == 0
    assert [notice.site_id for notice in deliveries.given_up] == [str(site(1))]
    notice = await owing.notice(1)
    assert notice.given_up_at is not None
    assert notice.last_error.startswith("blocked: https://merchant.example leads to ")


async def test_a_malformed_url_is_given_up_at_once(owing: Owing) -> None:
    await owing.fail(1, "not a URL")
    assert (await owing.sweep()).given_up_now == 1
    assert (await owing.notice(1)).last_error.startswith("malformed: ")
    assert (await owing.sweep()).given_up_now == 0


async def test_the_rule_can_be_lifted_for_trials(owing: Owing, receiver: Receiver) -> None:
    await owing.fail(1, receiver.url())
    assert len((await owing.sweep()).delivered) == 1
