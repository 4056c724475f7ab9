"""The platform's column of domains may have any type: its sites are read all the same."""

from datetime import timedelta

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning import chain
from provisioning.chain.domains import host_name
from provisioning.errors import BadDomain
from provisioning.failures import Source, fail_terminally
from provisioning.site_state import Outcome
from provisioning.sweep.snapshot import look
from tests.sites import Sites, site

NAMED = (
    "CREATE EXTENSION citext",
    "CREATE DOMAIN a_domain AS citext CHECK (VALUE <> '')",
    "CREATE TYPE an_enum AS ENUM ('Shop.example')",
)


@pytest.mark.parametrize(
    ("type_", "using", "domain"),
    [
        *((it, "domain", "Shop.example") for it in ("varchar(300)", "char(300)", "name", "citext")),
        *((it, f"domain::{it}", "Shop.example") for it in ("a_domain", "an_enum")),
        ("text[]", "ARRAY[domain, 'www.shop.example']", "{Shop.example,www.shop.example}"),
        ("jsonb", "to_jsonb(domain)", '"Shop.example"'),
        ("text", "NULL", ""),
    ],
)
@pytest.mark.guarantee(
    fault="a column of domains of another type than text: citext, char, an enum, an array",
    holds="its sites are failed all the same, and what is no domain fails a chain in one sentence",
    guard="without the cast of DOMAIN the look at an array or an enum raised; char kept blanks",
)
async def test_a_domain_of_any_type_is_read_as_text(
    engine: AsyncEngine, sites: Sites, type_: str, using: str, domain: str
) -> None:
    for statement in NAMED:
        await sites.run(statement)
    stuck = await sites.add_started(1)
    await sites.run("UPDATE sites SET domain = 'Shop.example'")
    await sites.run(f"ALTER TABLE sites ALTER COLUMN domain TYPE {type_} USING {using}")

    (found,) = (await look(engine, timedelta(minutes=30), 10, writes=True)).stuck
    assert found.domain == domain
    outcome = await fail_terminally(
        engine, site(1), stuck, reason="watchdog: x", source=Source.WATCHDOG, teardown=True
    )
    assert outcome is Outcome.REAPED
    assert await sites.rows("SELECT coalesce(domain, '') FROM terminal_failures") == [(domain,)]

    started = await chain.begin(engine, site(1))
    read = (await chain.step(engine, site(1), started, "request")).domain
    assert read == domain
    if domain == "Shop.example":
        assert host_name(read) == "shop.example"
    else:
        with pytest.raises(BadDomain, match=r"^the domain of the site is no host name: "):
            host_name(read)
