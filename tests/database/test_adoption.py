"""Adoption looks first, tells all that is in the way at once, and fits itself to what is there."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from subprocess import CompletedProcess

import psycopg
import pytest

from tests.commands import alembic
from tests.sites import PLATFORM_TABLE

INDEX = "sites_provision_in_flight"
SPLIT = """
CREATE TABLE sites (id bigint, domain text, metadata jsonb, region text, PRIMARY KEY (id, region))
  PARTITION BY LIST (region);
CREATE TABLE sites_eu PARTITION OF sites FOR VALUES IN ('eu');
CREATE TABLE sites_us PARTITION OF sites FOR VALUES IN ('us1', 'us2') PARTITION BY LIST (region);
CREATE TABLE sites_us1 PARTITION OF sites_us FOR VALUES IN ('us1');
INSERT INTO sites SELECT 3000000000 + i, 'shop.example',
  '{"provision": {"started_at": "2025-01-15T14:00:00Z"}}',
  CASE WHEN i % 2 = 0 THEN 'eu' ELSE 'us1' END FROM generate_series(1, 1000) AS i;
"""


def upgrade(url: str, **names: str) -> "CompletedProcess[str]":
    return alembic(url, "upgrade", "head", **names)


def query(url: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def of_ours(url: str) -> list[tuple[object, ...]]:
    return query(
        url,
        "SELECT relname::text FROM pg_class WHERE relname IN ('terminal_failures', 'notices',"
        f" 'sweep_refusals', 'provision_reaper_version', '{INDEX}')"
        " UNION ALL SELECT proname::text FROM pg_proc WHERE proname = 'iso_instant' ORDER BY 1",
    )


def indexes(url: str) -> dict[object, bool]:
    """Whether each index like ours is valid, by its table."""
    rows = query(
        url,
        "SELECT indrelid::regclass::text, indisvalid FROM pg_index"
        " WHERE pg_get_indexdef(indexrelid) LIKE '%iso_instant%'",
    )
    assert len({table for table, _ in rows}) == len(rows), rows
    return {table: bool(valid) for table, valid in rows}


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ("SELECT 1", ["has no table sites, and none is made"]),
        ('CREATE TABLE "Sites" (id bigint)', ["set PROVISION_SITES_TABLE='public.\"Sites\"'"]),
        ("CREATE SCHEMA p; CREATE TABLE p.sites (i int)", ["PROVISION_SITES_TABLE='p.sites'"]),
        (
            "CREATE TABLE s (id bigint, domain text, metadata jsonb);"
            "CREATE VIEW sites AS SELECT * FROM s",
            ["public.sites is a view"],
        ),
        ("CREATE TABLE sites (id bigint PRIMARY KEY, metadata jsonb)", ["no column domain"]),
        (
            'CREATE TABLE sites ("ID" numeric, domain int, metadata json)',
            ["PROVISION_SITES_ID to '\"ID\"'", "a domain is text", "USING metadata::jsonb"],
        ),
        (
            "CREATE TABLE sites (id numeric PRIMARY KEY, domain text, metadata jsonb)",
            ["is of type numeric; an id is"],
        ),
        (
            "CREATE TABLE sites (id bigint, domain text, metadata jsonb)",
            ["makes public.sites.id u"],
        ),
        (
            "CREATE TABLE sites (id bigint, domain text, metadata jsonb, t int, UNIQUE (t, id));"
            "CREATE UNIQUE INDEX ON sites (id) WHERE t = 1",
            ["Nothing makes public.sites.id unique"],
        ),
        (
            f"{PLATFORM_TABLE}; CREATE TABLE notices (id int); CREATE VIEW sweep_refusals AS SELECT"
            " 1; CREATE FUNCTION iso_instant(text) RETURNS int LANGUAGE sql AS 'SELECT 1';"
            f"CREATE TABLE other (n int); CREATE INDEX {INDEX} ON other (n)",
            [
                "public.notices is taken",
                "public.sweep_refusals is taken",
                "iso_instant(text) is there and is not ours",
                f"{INDEX} is taken",
            ],
        ),
        (f"{PLATFORM_TABLE}; CREATE INDEX {INDEX} ON sites (domain)", [f"{INDEX} is taken"]),
    ],
)
@pytest.mark.guarantee(
    fault=(
        "no table, a view, other columns and types, no unique id, names that are taken (G06, G12)"
    ),
    holds="all of it is told at once, the table that may be meant is named, and nothing is made",
    guard=(
        "without the look, our tables are made before the first obstacle is met; without the "
        "search for tables like it, none is named"
    ),
)
def test_all_that_is_in_the_way_is_told_at_once_and_nothing_is_made(
    empty_database_url: str, made: str, said: list[str]
) -> None:
    for statement in made.split(";"):
        query(empty_database_url, statement)
    before = of_ours(empty_database_url)
    refused = upgrade(empty_database_url)
    assert refused.returncode != 0
    assert "Traceback" not in refused.stderr
    for sentence in said:
        assert sentence in refused.stderr, refused.stderr
    assert of_ours(empty_database_url) == before


def test_g06_a_name_that_the_search_path_hides_is_qualified_first(empty_database_url: str) -> None:
    query(empty_database_url, "CREATE SCHEMA platform")
    query(empty_database_url, PLATFORM_TABLE.replace("sites", "platform.sites"))
    assert "PROVISION_SITES_TABLE='platform.sites'" in upgrade(empty_database_url).stderr
    assert of_ours(empty_database_url) == []
    done = upgrade(empty_database_url, PROVISION_SITES_TABLE="platform.sites")
    assert done.returncode == 0, done.stderr
    assert query(empty_database_url, "SELECT 1 FROM platform.notices") == []


@pytest.mark.guarantee(
    fault="a table of the platform's with a name of ours, which the search path comes to first",
    holds="told, with the setting that names the schema, and nothing is made",
    guard="without the question, the migrations go on",
)
def test_a_name_of_ours_that_the_search_path_finds_elsewhere_first_is_told(
    empty_database_url: str,
) -> None:
    query(empty_database_url, PLATFORM_TABLE)
    query(empty_database_url, "CREATE SCHEMA first")
    query(empty_database_url, "CREATE TABLE first.notices (id int)")
    ((name,),) = query(empty_database_url, "SELECT current_database()")
    query(empty_database_url, f"ALTER DATABASE {name} SET search_path = first, public")
    refused = upgrade(empty_database_url)
    assert "comes to first.notices before ours" in refused.stderr
    assert of_ours(empty_database_url) == [("notices",)]
    assert upgrade(empty_database_url, PROVISION_SITES_TABLE="public.sites").returncode == 0


@pytest.fixture
def migrator(empty_database_url: str) -> Iterator[str]:
    """The URL of the same database for a role that owns nothing in it."""
    query(empty_database_url, "DROP ROLE IF EXISTS migrator")
    query(empty_database_url, "CREATE ROLE migrator LOGIN")
    yield empty_database_url.replace("//postgres@", "//migrator@")
    query(empty_database_url, "REASSIGN OWNED BY migrator TO postgres")
    query(empty_database_url, "DROP OWNED BY migrator")
    query(empty_database_url, "DROP ROLE migrator")


@pytest.mark.guarantee(
    fault="a role that does not own the table and may create nothing (G14)",
    holds="one sentence for each, before anything is made",
    guard=(
        "without the question for rights, permission is denied in the middle of the first migration"
    ),
)
def test_g14_a_role_that_may_not_is_told_so_and_what_to_do(
    empty_database_url: str, migrator: str
) -> None:
    query(empty_database_url, PLATFORM_TABLE)
    refused = upgrade(migrator)
    assert refused.stderr.count("\n- ") == 2, refused.stderr
    assert "migrator does not own public.sites" in refused.stderr.replace(" sites", " public.sites")
    assert "GRANT USAGE, CREATE ON SCHEMA public TO migrator;" in refused.stderr
    assert of_ours(empty_database_url) == []
    query(empty_database_url, "GRANT USAGE, CREATE ON SCHEMA public TO migrator")
    query(empty_database_url, "ALTER TABLE sites OWNER TO migrator")
    assert upgrade(migrator).returncode == 0


@pytest.mark.parametrize(
    "lost",
    [
        f"DROP INDEX {INDEX}",
        f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{INDEX}'::regclass",
        f"DROP INDEX {INDEX}; DROP FUNCTION iso_instant(text)",
        "DROP TABLE notices",
        "DROP TABLE terminal_failures CASCADE",
        "DROP TABLE sweep_refusals; DROP INDEX notices_owed",
        "REVOKE EXECUTE ON FUNCTION iso_instant(text) FROM PUBLIC",
    ],
)
@pytest.mark.guarantee(
    fault="an index, a table or a right of ours is gone, and the version is the newest (G13)",
    holds="`alembic upgrade head` makes it again",
    guard="without the mending, each of the seven stays as it is",
)
def test_g13_what_got_lost_at_the_newest_revision_is_made_again(
    database_url: str, lost: str
) -> None:
    whole = of_ours(database_url)
    for statement in lost.split(";"):
        query(database_url, statement)
    done = upgrade(database_url)
    assert done.returncode == 0, done.stderr
    assert of_ours(database_url) == whole
    assert indexes(database_url) == {"sites": True}
    assert query(database_url, "SELECT to_regclass('notices_owed') IS NOT NULL") == [(True,)]
    can = "SELECT has_function_privilege('public', 'iso_instant(text)', 'EXECUTE')"
    assert query(database_url, can) == [(True,)]


@pytest.mark.guarantee(
    fault="a partitioned table, in two levels (G12)",
    holds="each partition gets the index beside its writers, and a new one by itself",
    guard=(
        "taken for a plain table, the server refuses the index; without the attaching, the "
        "migration ends with an error"
    ),
)
def test_g12_partitions_get_the_index_one_by_one_and_new_ones_by_themselves(
    empty_database_url: str,
) -> None:
    query(empty_database_url, SPLIT)
    done = upgrade(empty_database_url)
    assert done.returncode == 0, done.stderr
    query(empty_database_url, "CREATE TABLE us2 PARTITION OF sites_us FOR VALUES IN ('us2')")
    everywhere = {"sites", "sites_eu", "sites_us", "sites_us1", "us2"}
    assert indexes(empty_database_url) == dict.fromkeys(everywhere, True)
    assert upgrade(empty_database_url).stdout.strip() == "Everything is in place."


@pytest.mark.parametrize("at", ["sites", "sites_eu", "ONLY sites"])
@pytest.mark.guarantee(
    fault="the index of a partitioned table was built by hand, whole or in part (G12)",
    holds="it is taken as it is, and what is missing is built",
    guard="without the look for what is there, a partition is built twice",
)
def test_g12_an_index_that_was_built_by_hand_is_taken_as_it_is(
    empty_database_url: str, at: str
) -> None:
    """On the whole table, on one partition, and as a build that stopped before its partitions."""
    query(empty_database_url, SPLIT)
    assert upgrade(empty_database_url).returncode == 0
    ((definition,),) = query(empty_database_url, f"SELECT pg_get_indexdef('{INDEX}'::regclass)")
    query(empty_database_url, f"DROP INDEX {INDEX}")
    by_hand = str(definition).replace("ON ONLY public.sites", f"ON {at}")
    query(empty_database_url, by_hand.replace(INDEX, "by_hand" if at == "sites_eu" else INDEX))
    built = upgrade(empty_database_url)
    assert built.returncode == 0, built.stderr
    on = {"sites": 0, "sites_eu": 1, "ONLY sites": 2}[at]
    assert built.stdout.count("beside its writers") == on
    assert all(indexes(empty_database_url).values())


@pytest.mark.guarantee(
    fault="the build of a partition is killed",
    holds="a second run goes on from there, and leaves no invalid index behind",
    guard="without the look for what is there, the invalid index stays beside the new one",
)
def test_a_build_of_partitions_that_was_killed_goes_on_where_it_was(
    empty_database_url: str,
) -> None:
    query(empty_database_url, SPLIT)
    with psycopg.connect(empty_database_url) as writer, ThreadPoolExecutor() as pool:
        writer.execute("UPDATE sites_us1 SET domain = 'x'")
        migrating = pool.submit(upgrade, empty_database_url)
        stop = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE query LIKE 'CREATE INDEX CONCURRENTLY%sites_us1%'"
        )
        deadline = time.monotonic() + 60
        while not query(empty_database_url, stop):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert migrating.result().returncode != 0
        writer.commit()
    again = upgrade(empty_database_url)
    assert again.returncode == 0, again.stderr
    assert "sites_eu" not in again.stdout.replace("sites_eu has the index", "")
    assert indexes(empty_database_url) == dict.fromkeys(
        ("sites", "sites_eu", "sites_us", "sites_us1"), True
    )
