"""What a merchant is told of a failure: one of three sentences, whatever happened (case G22)."""

import json
import socket
from typing import Any

import pytest

from provisioning.outbox.notices import Told
from tests.chain.conftest import Clock, Provision
from tests.chain.forge_server import Spoilt
from tests.chain.stub_server import StubServer
from tests.conftest import free_port
from tests.sites import Sites

SITE = 3_000_000_001
MERCHANT = {"provision": {"webhook": "https://merchant.example/hook"}}

PUBLIC, INSIDE, CLOUD = "93.184.216.34", "10.20.30.40", "169.254.169.254"


async def told(sites: Sites) -> tuple[str, str, str]:
    """What the notice says, what the mark says, and all that an operator reads."""
    ((body,),) = await sites.rows("SELECT convert_from(body, 'UTF8') FROM notices")
    data = json.loads(body)["data"]
    assert set(data) == {"failure_id", "site_id", "domain", "attempt", "reason", "source"}
    ((detail,),) = await sites.rows("SELECT detail FROM terminal_failures")
    mark = (await sites.metadata(SITE))["terminal_failure"]
    assert mark["reason"] == f"chain: {data['reason']}"
    for shown in (body, json.dumps(await sites.metadata(SITE)).replace(data["attempt"], "")):
        assert detail not in shown
    return data["reason"], mark["reason"], detail


def lead_to(monkeypatch: pytest.MonkeyPatch, domain: str, addresses: list[str]) -> None:
    """From now on the domain has these addresses."""
    really = socket.getaddrinfo

    def look_up(host: Any, *arguments: Any, **options: Any) -> list[Any]:
        if host not in (domain, domain.encode()):
            return list(really(host, *arguments, **options))
        if not addresses:
            raise socket.gaierror
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (one, 80)) for one in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)


@pytest.mark.parametrize(
    ("url", "addresses", "for_operators"),
    [
        pytest.param("{own}/visit/{{domain}}", None, "the site answers 404", id="an open port"),
        pytest.param("http://127.0.0.1:{port}/{{domain}}", None, "no answer", id="a closed port"),
        pytest.param("http://{{domain}}:{port}/", [INSIDE], "blocked", id="an address inside"),
        pytest.param("http://{{domain}}/", [CLOUD], CLOUD, id="metadata of a cloud"),
        pytest.param("http://{{domain}}/", [PUBLIC, INSIDE], INSIDE, id="both"),
        pytest.param("https://{{domain}}/", [], "does not resolve", id="no address"),
    ],
)
@pytest.mark.guarantee(
    fault="a health check that meets an open port, a closed one, an address inside, or nothing "
    "(G22)",
    holds="the merchant is told one sentence, the same each time; the ledger has the detail",
    guard='with the detail for a reason: "blocked: … leads to 169.254.169.254" in the notice',
)
async def test_a_site_that_is_not_healthy_is_told_in_one_sentence(
    provision: Provision,
    sites: Sites,
    forge: StubServer,
    clock: Clock,
    upstream_environment: pytest.MonkeyPatch,
    url: str,
    addresses: list[str] | None,
    for_operators: str,
) -> None:
    await sites.add(SITE, MERCHANT, domain="shop.example")
    forge.health.extend([404] * 1000)
    template = url.format(own=forge.url, port=free_port())
    upstream_environment.setenv("PROVISION_HEALTH_URL", template)
    if addresses is not None:
        lead_to(upstream_environment, "shop.example", addresses)
    await clock.run_ahead(60)
    state = await provision(SITE, give_up_after_minutes=1)
    assert state.name == "Failed", state.message
    reason, mark, detail = await told(sites)
    assert reason == "The site was not ready in time."
    assert mark == "chain: The site was not ready in time."
    assert for_operators in detail


@pytest.mark.parametrize(
    ("answer", "for_operators"),
    [
        (Spoilt(401, body='{"message": "secret-4711 is no token"}'), "secret-4711"),
        (Spoilt(422, body='{"errors": {"name": ["taken by acme"]}}'), "taken by acme"),
        (Spoilt(302, {"location": "http://10.0.0.1/"}), "answered 302"),
        (Spoilt(503, {"retry-after": "86400"}), "asks to be left alone"),
    ],
)
async def test_what_the_upstream_says_is_for_operators_alone(
    provision: Provision, sites: Sites, forge: StubServer, answer: Spoilt, for_operators: str
) -> None:
    await sites.add(SITE, MERCHANT, domain="shop.example")
    forge.spoil("GET", answer)
    assert (await provision(SITE)).name == "Failed"
    reason, _, detail = await told(sites)
    assert reason in [sentence.value for sentence in Told]
    assert for_operators in detail


@pytest.mark.parametrize("domain", ["shop\n.example", "shop\u202e.example", "x" * 300, ""])
async def test_a_domain_that_is_none_is_for_operators_alone(
    provision: Provision, sites: Sites, domain: str
) -> None:
    await sites.run(
        "INSERT INTO sites VALUES (:id, :domain, CAST(:metadata AS jsonb))",
        id=sites.id(SITE),
        domain=domain,
        metadata=json.dumps(MERCHANT),
    )
    assert (await provision(SITE)).name == "Failed"
    reason, _, detail = await told(sites)
    assert reason == "Setting up the site failed."
    assert "the domain of the site is no host name" in detail


async def test_what_nobody_thought_of_is_for_operators_alone(
    provision: Provision, sites: Sites, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_arguments: Any, **_options: Any) -> None:
        raise OSError(111, "Connect call failed ('10.20.30.40', 8443)")

    monkeypatch.setattr("tasks.check_health.require_healthy", broken)
    await sites.add(SITE, MERCHANT)
    assert (await provision(SITE)).name == "Failed"
    reason, _, detail = await told(sites)
    assert reason == "Setting up the site failed."
    assert "10.20.30.40" in detail
