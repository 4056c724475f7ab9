"""The contract as SQL does what the functions do."""

import json
import re
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID, uuid5

import psycopg
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning import chain
from provisioning.chain.contract import contract
from provisioning.errors import AlreadyInFlight, NotInFlight, Unstampable
from provisioning.schema import SiteId
from tests.sites import OLD, Sites, site, stamp

pytestmark = pytest.mark.heart

CONTRACT = contract()
STATEMENT = re.compile(r"^-- (\w+): .*?\n(?!--)(.*?;)$", re.MULTILINE | re.DOTALL)
STATEMENTS = dict(STATEMENT.findall(CONTRACT))

STARTED = stamp(OLD)
HOOK = "https://merchant.example/hook"
SECRET = "whsec_" + "b" * 43 + "="
MERCHANT = {"webhook": HOOK, "webhook_secret": SECRET}
IN_FLIGHT: dict[str, Any] = {
    "a": 1,
    "provision": {"started_at": STARTED, "step": "x", "b": 2} | MERCHANT,
}
OWN, LATER = "2020-01-01T00:00:00.000001Z", "2020-01-01T00:00:00.000002Z"
WITH_A_DEADLINE: list[Any] = [
    {
        "provision": {"started_at": STARTED, "deadline": deadline, "own_deadline": OWN},
        "terminal_failure": {"reason": "x"},
    }
    for deadline in (OWN, LATER, None)
]
OVER = [
    IN_FLIGHT | {"terminal_failure": {"reason": "x"}},
    IN_FLIGHT | {"health_check": {"completed_at": STARTED, "c": 3}},
]
UNSTAMPABLE: list[Any] = ["x", [], {"provision": "x"}, {"provision": []}, {"health_check": "x"}]
FRESH: list[Any] = [None, {}, {"a": 1, "provision": None, "health_check": None}]

PLACE = re.compile(r"(?<!:):(site_id|attempt|step|upstream_id|reason|failure_id|notice_id)\b")

Sql = Callable[..., str | None]


@pytest.fixture
def sql(database_url: str) -> Sql:
    """Run one statement of the contract; the first column of its row, or None."""

    def run(name: str, **values: Any) -> str | None:
        statement = PLACE.sub(r"%(\1)s", STATEMENTS[name].replace("%", "%%"))
        values["site_id"] = site(values["site_id"])
        values |= ids(values["site_id"], values.get("attempt", ""))
        with psycopg.connect(database_url) as connection:
            connection.execute("SET LOCAL lock_timeout = '500ms'")
            row = connection.execute(statement, values).fetchone()
            return str(row[0]) if row else None

    return run


def ids(site_id: SiteId, attempt: str) -> dict[str, UUID]:
    """The ids of a failure as the contract describes them, in the words of another program."""
    (namespace,) = re.findall(r"^-- ([0-9a-f-]{36}):", CONTRACT, re.MULTILINE)
    named = "\n".join([str(site_id), attempt])
    return {
        "failure_id": uuid5(UUID(namespace), named),
        "notice_id": uuid5(UUID(namespace), f"{named}\nwebhook"),
    }


async def changed(call: Awaitable[Any]) -> bool:
    try:
        await call
    except (NotInFlight, AlreadyInFlight, Unstampable):
        return False
    return True


def comparable(metadata: Any) -> Any:
    """Without the instants, which differ from one call to the next."""
    return json.loads(re.sub(r"\d{4}-\d\d-\d\dT[\d:]+\.\d{6}Z", "now", json.dumps(metadata)))


def test_no_parser_of_placeholders_finds_one_that_is_none() -> None:
    """As Rails looks for them: a colon, no second one before it, and then a letter."""
    named = set(re.findall(r"(?<!:):([a-zA-Z]\w*)", CONTRACT))
    places = {"site_id", "attempt", "step", "upstream_id", "reason", "failure_id", "notice_id"}
    assert named == places


def test_every_statement_is_found() -> None:
    assert list(STATEMENTS) == ["begin", "step", "made", "complete", "fail"]


@pytest.mark.parametrize("metadata", [*FRESH, IN_FLIGHT, *OVER, *WITH_A_DEADLINE, *UNSTAMPABLE])
async def test_begin(sites: Sites, engine: AsyncEngine, sql: Sql, metadata: Any) -> None:
    await sites.add(1, metadata)
    await sites.add(2, metadata)
    attempt = sql("begin", site_id=2)
    assert (attempt is not None) == await changed(chain.begin(engine, site(1)))
    assert comparable(await sites.metadata(1)) == comparable(await sites.metadata(2))
    if attempt:
        assert (await sites.metadata(2))["provision"]["started_at"] == attempt


@pytest.mark.parametrize(
    "attempt", [STARTED, "2020-01-01T00:00:00Z"], ids=["its attempt", "another"]
)
@pytest.mark.parametrize(
    "metadata", [IN_FLIGHT, IN_FLIGHT | {"health_check": {"c": 3}}, OVER[0], *FRESH]
)
@pytest.mark.parametrize("name", ["step", "complete", "fail"])
async def test_the_others(
    sites: Sites, engine: AsyncEngine, sql: Sql, name: str, metadata: Any, attempt: str
) -> None:
    await sites.add(1, metadata, domain="shop.example")
    await sites.add(2, metadata, domain="shop.example")
    calls: dict[str, Callable[[], Awaitable[Any]]] = {
        "step": lambda: chain.step(engine, site(1), attempt, "dns"),
        "complete": lambda: chain.complete(engine, site(1), attempt),
        "fail": lambda: chain.fail(engine, site(1), attempt, "chain: x", teardown=False),
    }
    in_sql = sql(name, site_id=2, attempt=attempt, step="dns", reason="chain: x")
    in_python = await changed(calls[name]())
    assert in_sql is None or in_python
    assert comparable(await sites.metadata(1)) == comparable(await sites.metadata(2))
    assert len(await sites.ledger()) in (0, 2)
    assert [url for _, url in await sites.notices()] in ([], [HOOK, HOOK])
    secrets = await sites.rows("SELECT secret FROM notices")
    assert [row[0] for row in secrets] in ([], [SECRET, SECRET])
    domains = await sites.rows("SELECT domain FROM terminal_failures")
    assert {row[0] for row in domains} <= {"shop.example"}
    bodies = [json.loads(row[0]) for row in await sites.rows("SELECT body FROM notices")]
    for body in bodies:
        del body["data"]["failure_id"], body["data"]["site_id"]
    assert len({json.dumps(comparable(body), sort_keys=True) for body in bodies}) <= 1


async def test_a_failure_in_sql_is_entered_once(sites: Sites, sql: Sql) -> None:
    await sites.add(1, IN_FLIGHT)
    first, second = (sql("fail", site_id=1, attempt=STARTED, reason="chain: x") for _ in "12")
    assert (first, second) == (str(site(1)), None)
    assert await sites.ledger() == [1]
    assert len(await sites.notices()) == 1


async def test_a_failure_has_the_ids_that_the_program_itself_would_give_it(
    sites: Sites, engine: AsyncEngine, sql: Sql
) -> None:
    await sites.add(1, IN_FLIGHT)
    sql("fail", site_id=1, attempt=STARTED, reason="chain: x")
    by_sql = await sites.rows("SELECT id, failure_id FROM notices")
    await sites.run("TRUNCATE notices, terminal_failures")
    await sites.run(
        "UPDATE sites SET metadata = metadata - 'terminal_failure' WHERE id = :id", id=site(1)
    )
    await chain.fail(engine, site(1), STARTED, "chain: x", teardown=False)
    assert await sites.rows("SELECT id, failure_id FROM notices") == by_sql


@pytest.mark.parametrize("key", [None, "", " ", "whsec_" + "A" * 32])
async def test_what_a_failure_owes_is_the_same_row(
    sites: Sites, engine: AsyncEngine, sql: Sql, key: str | None
) -> None:
    provision = IN_FLIGHT["provision"] | {"webhook": f"{HOOK}?{'x' * 3_000}", "webhook_secret": key}
    for site_id in (1, 2):
        await sites.add(site_id, IN_FLIGHT | {"provision": provision}, domain="é" * 300)
    await chain.fail(engine, site(1), STARTED, "an upstream said no", teardown=False)
    sql("fail", site_id=2, attempt=STARTED, reason="an upstream said no")
    one, two = await sites.rows(
        "SELECT domain, reason, detail, kind, url, secret FROM notices "
        "JOIN terminal_failures f ON f.id = failure_id ORDER BY site_id"
    )
    assert one == two
    assert one.detail == "an upstream said no"


@pytest.mark.parametrize(
    ("attempt", "named"),
    [(STARTED, "77"), ("2020-01-01T00:00:00Z", None)],
    ids=["its attempt", "another"],
)
async def test_a_teardown_names_what_a_chain_in_sql_had_made(
    sites: Sites, engine: AsyncEngine, sql: Sql, attempt: str, named: str | None
) -> None:
    await sites.add(1, IN_FLIGHT)
    made = sql("made", site_id=1, attempt=attempt, upstream_id="77")
    assert made == (named and str(site(1)))
    await chain.fail(engine, site(1), STARTED, "chain: x", teardown=True)
    ((body,),) = await sites.rows("SELECT body FROM notices WHERE kind = 'teardown'")
    assert json.loads(bytes(body))["data"]["upstream_id"] == named
