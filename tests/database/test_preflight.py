"""Each way in which a database can blind a sweep or tie its hands is named before it looks.

On a real PostgreSQL, as the role of the README. G04, G06, G11, F18, F20.
"""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
import time_machine
from sqlalchemy import make_url
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from deployments.postgres import LocalPostgres
from provisioning.database import database
from provisioning.errors import ClocksDiffer, DatabaseUnready
from provisioning.sweep.snapshot import look
from tests.database.test_permissions import THRESHOLD, reaper
from tests.sites import Sites

__all__ = ["reaper"]

FAILED = "Failed, with what is wrong and what to do"


async def refused_to_look(engine: AsyncEngine, *, writes: bool = False) -> str:
    """What a sweep says instead of looking."""
    with pytest.raises(DatabaseUnready) as raised:
        await look(engine, THRESHOLD, 100, writes=writes)
    return str(raised.value)


POLICIES = {
    "without a policy": [],
    "a policy for SELECT alone": ["CREATE POLICY p ON {} FOR SELECT USING (true)"],
    "a policy that hides rows": ["CREATE POLICY p ON {} USING (false)"],
    "a policy for all": ["CREATE POLICY p ON {} USING (true) WITH CHECK (true)"],
}


@pytest.mark.parametrize("policies", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize(
    "table", ["sites", "terminal_failures", "notices", "sweep_refusals", "sweep_ends"]
)
@pytest.mark.guarantee(
    fault="row security on any of the five tables (G04)",
    holds=f"{FAILED}: BYPASSRLS",
    guard=(
        "without `_row_security`, sites and the ledger end in PostgreSQL's own error, by the "
        "belt; for notices and refusals, it looks"
    ),
)
async def test_row_security_that_applies_to_the_role_is_said(
    reaper: AsyncEngine, sites: Sites, table: str, policies: list[str]
) -> None:
    await sites.add_started(1)
    await sites.run(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
    for policy in policies:
        await sites.run(policy.format(table))
    said = await refused_to_look(reaper)
    assert f"row security applies to reaper on {table}" in said
    assert "BYPASSRLS" in said


async def test_row_security_that_does_not_apply_to_the_role_stops_nothing(
    reaper: AsyncEngine, sites: Sites
) -> None:
    await sites.add_started(1)
    await sites.run("ALTER TABLE sites ENABLE ROW LEVEL SECURITY")
    await sites.run("ALTER TABLE notices ENABLE ROW LEVEL SECURITY")
    await sites.run("ALTER ROLE reaper BYPASSRLS")
    assert len((await look(reaper, THRESHOLD, 100, writes=True)).stuck) == 1


async def test_the_owner_is_told_of_row_security_that_is_forced_on_him(
    reaper: AsyncEngine, sites: Sites
) -> None:
    await sites.run("ALTER TABLE sites OWNER TO reaper")
    await sites.run("ALTER TABLE sites ENABLE ROW LEVEL SECURITY")
    await look(reaper, THRESHOLD, 100, writes=True)
    await sites.run("ALTER TABLE sites FORCE ROW LEVEL SECURITY")
    assert "row security applies to reaper on sites" in await refused_to_look(reaper)


async def test_the_session_asks_for_an_error_rather_than_for_hidden_rows(
    reaper: AsyncEngine, sites: Sites
) -> None:
    """The belt, for row security that comes between the look and the act."""
    await sites.run("ALTER TABLE sites ENABLE ROW LEVEL SECURITY")
    async with reaper.connect() as connection:
        with pytest.raises(Exception, match="affected by row-level security"):
            await connection.exec_driver_sql("SELECT id FROM sites")


@pytest.mark.guarantee(
    fault="a pooler drops the bounds and formats that the program sets (G10, G11)",
    holds=f"{FAILED}: PROVISION_DATABASE_POOLED",
    guard="without the comparison in `_session`, it looks",
)
async def test_bounds_and_formats_that_are_not_in_force_are_said(
    sites: Sites, database_url: str
) -> None:
    name = make_url(database_url).database
    await sites.run(f"ALTER DATABASE {name} SET datestyle = 'SQL, DMY'")
    engine = create_async_engine(database_url.replace("postgresql://", "postgresql+psycopg://"))
    said = await refused_to_look(engine)
    await engine.dispose()
    for name in ("statement_timeout is 0 and not 30s", "datestyle is SQL, DMY and not ISO"):
        assert name in said
    assert "PROVISION_DATABASE_POOLED=true" in said


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("statement_timeout", "0"),
        ("lock_timeout", "5min"),
        ("idle_in_transaction_session_timeout", "0"),
        ("timezone", "Asia/Kathmandu"),
        ("datestyle", "German, DMY"),
        ("intervalstyle", "sql_standard"),
        ("row_security", "on"),
    ],
)
async def test_each_of_them_is_told_by_its_name(
    engine: AsyncEngine, setting: str, value: str
) -> None:
    async with engine.connect() as connection:
        await connection.exec_driver_sql(f"SET {setting} = '{value}'")
        await connection.commit()
    assert f"not in force: {setting} is " in await refused_to_look(engine)


@pytest.mark.parametrize("ahead", [timedelta(days=1), timedelta(minutes=6), -timedelta(hours=1)])
@pytest.mark.guarantee(
    fault="the database's clock and the worker's differ by more than five minutes (F20)",
    holds=f"{FAILED}; a worker's clock decides about no site",
    guard="with a tolerance of 50 days, it looks",
)
async def test_clocks_that_differ_are_said(engine: AsyncEngine, ahead: timedelta) -> None:
    with (
        time_machine.travel(datetime.now(UTC) + ahead, tick=True),
        pytest.raises(ClocksDiffer, match="behind" if ahead > timedelta(0) else "ahead of") as said,
    ):
        await look(engine, THRESHOLD, 100, writes=True)
    assert abs(said.value.ahead + ahead) < timedelta(minutes=1)


@pytest.mark.parametrize("ahead", [timedelta(minutes=4), -timedelta(minutes=4)])
async def test_clocks_that_differ_by_less_stop_nothing(
    engine: AsyncEngine, ahead: timedelta
) -> None:
    with time_machine.travel(datetime.now(UTC) + ahead, tick=True):
        await look(engine, THRESHOLD, 100, writes=True)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (["DROP TABLE sites"], "no table `sites` that reaper can see"),
        (
            ["CREATE SCHEMA platform", "ALTER TABLE sites SET SCHEMA platform"],
            "There is platform.sites: if that is it, set PROVISION_SITES_TABLE",
        ),
        (['ALTER TABLE sites RENAME TO "Sites"'], 'There is public."Sites"'),
        (["ALTER TABLE sites RENAME TO tenants"], "There is public.tenants"),
        (
            ["ALTER TABLE sites RENAME TO all_sites", "CREATE VIEW sites AS TABLE all_sites"],
            "is a view, and only a table can be swept",
        ),
        (
            ["DROP TABLE sites", "CREATE MATERIALIZED VIEW sites AS SELECT 1 AS id"],
            "is a materialized view",
        ),
        (["ALTER TABLE sites RENAME COLUMN domain TO host"], "a column `domain`"),
        (["DROP TABLE notices"], "the migrations have not run"),
        (["DROP TABLE sweep_refusals"], "sweep_refusals missing"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.guarantee(
    fault="the table is missing, elsewhere, in quotes, a view, or lacks a column (G06, F18)",
    holds=f"{FAILED}, and where such a table is; nothing is created",
    guard="without `_no_table`, the database's error 42P01",
)
async def test_a_table_that_is_not_there_is_said_with_what_is(
    reaper: AsyncEngine, sites: Sites, damage: list[str], said: str
) -> None:
    for statement in damage:
        await sites.run(statement)
    assert said in await refused_to_look(reaper)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (
            [
                "DROP INDEX sites_provision_in_flight",
                "CREATE INDEX sites_provision_in_flight ON sites (id)",
            ],
            "is another one than this program's",
        ),
        (
            [
                "DROP INDEX sites_provision_in_flight",
                "CREATE INDEX sites_provision_in_flight ON sites "
                "(iso_instant(metadata #>> '{provision,started_at}'), id)",
            ],
            "is another one than this program's",
        ),
        (
            [
                "DROP INDEX sites_provision_in_flight",
                "CREATE TABLE other (id int)",
                "CREATE INDEX sites_provision_in_flight ON other (id)",
            ],
            "the index sites_provision_in_flight is missing",
        ),
        (
            [
                "CREATE OR REPLACE FUNCTION iso_instant(t text) RETURNS timestamptz "
                "LANGUAGE sql IMMUTABLE STRICT AS 'SELECT NULL::timestamptz'"
            ],
            "the function iso_instant on database",
        ),
        (
            ["ALTER FUNCTION iso_instant(text) RENAME TO another"],
            "the function iso_instant missing",
        ),
    ],
    ids=["other key", "no condition", "on another table", "other function", "no function"],
)
@pytest.mark.guarantee(
    fault="an index or a function of our name that is not ours",
    holds=f"{FAILED}: alembic upgrade head",
    guard="with a look at `indisvalid` alone, a run that looks, and reads every stamp as none",
)
async def test_an_index_or_a_function_of_our_name_that_is_not_ours_is_said(
    reaper: AsyncEngine, sites: Sites, damage: list[str], said: str
) -> None:
    for statement in damage:
        await sites.run(statement)
    assert said in await refused_to_look(reaper)


@pytest.mark.guarantee(
    fault="rights that are granted column by column",
    holds="enough, and each one that is missing is named by its GRANT",
    guard="with has_table_privilege for `sites`, the rights by column are refused",
)
async def test_rights_on_the_columns_alone_are_enough_and_each_is_told_by_its_grant(
    reaper: AsyncEngine, sites: Sites
) -> None:
    await sites.add_started(1)
    await sites.run("REVOKE SELECT ON sites FROM reaper")
    for column in ("id", "domain", "metadata"):
        said = await refused_to_look(reaper)
        assert f"GRANT SELECT ({column}) ON sites TO reaper;" in said
        await sites.run(f"GRANT SELECT ({column}) ON sites TO reaper")
    assert len((await look(reaper, THRESHOLD, 100, writes=True)).stuck) == 1


@pytest.mark.parametrize(
    ("lost", "grant"),
    [
        (
            ["REVOKE EXECUTE ON FUNCTION iso_instant(text) FROM PUBLIC"],
            "GRANT EXECUTE ON FUNCTION iso_instant(text) TO reaper",
        ),
        (
            [
                "REVOKE INSERT ON terminal_failures FROM reaper",
                "REVOKE UPDATE ON notices FROM reaper",
            ],
            "GRANT INSERT ON terminal_failures TO reaper; GRANT UPDATE ON notices TO reaper;",
        ),
    ],
    ids=["function", "two at once"],
)
async def test_all_rights_that_are_missing_are_told_at_once(
    reaper: AsyncEngine, sites: Sites, lost: list[str], grant: str
) -> None:
    for statement in lost:
        await sites.run(statement)
    assert grant in await refused_to_look(reaper, writes=True)


@pytest.fixture
async def without_encoding(postgres: LocalPostgres) -> AsyncIterator[AsyncEngine]:
    """A database in which nobody knows what a letter is."""
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(
            "CREATE DATABASE sql_ascii TEMPLATE template0 ENCODING SQL_ASCII LC_COLLATE 'C' "
            "LC_CTYPE 'C'"
        )
    async with database(postgres.url("sql_ascii")) as engine:
        yield engine
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute("DROP DATABASE sql_ascii WITH (FORCE)")


async def test_a_database_without_an_encoding_is_refused(without_encoding: AsyncEngine) -> None:
    assert "has the encoding SQL_ASCII" in await refused_to_look(without_encoding)


async def test_all_that_is_wrong_is_told_at_once(reaper: AsyncEngine, sites: Sites) -> None:
    await sites.run("ALTER TABLE sites ENABLE ROW LEVEL SECURITY")
    await sites.run("DROP INDEX sites_provision_in_flight")
    await sites.run("REVOKE SELECT ON notices FROM reaper")
    said = await refused_to_look(reaper)
    for part in ("row security", "index sites_provision_in_flight is missing", "lacks rights"):
        assert part in said
