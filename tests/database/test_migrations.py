"""Migrations create what is missing, adopt what is there, and can be run again at any point."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from provisioning.sweep.queries import stuck_query
from tests.commands import alembic, migrate
from tests.sites import PLATFORM_TABLE

OTHER_TABLE = """
CREATE TABLE sites (id integer PRIMARY KEY, owner text NOT NULL DEFAULT 'x', domain varchar(255),
                    metadata jsonb NOT NULL DEFAULT '{}');
INSERT INTO sites (id, domain, metadata) VALUES (1, 'shop.example', '{"provision": {"a": 1}}');
"""


def query(url: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def index_is_valid(url: str) -> bool:
    found = query(
        url,
        "SELECT indisvalid FROM pg_index"
        " WHERE indexrelid = to_regclass('sites_provision_in_flight')",
    )
    return found == [(True,)]


def test_a_platforms_database_gets_everything_and_a_second_run_changes_nothing(
    empty_database_url: str,
) -> None:
    query(empty_database_url, PLATFORM_TABLE)
    migrate(empty_database_url)
    migrate(empty_database_url)
    assert index_is_valid(empty_database_url)
    assert query(empty_database_url, "SELECT count(*) FROM sites") == [(0,)]


def test_the_schema_in_the_code_is_what_the_migrations_make(database_url: str) -> None:
    checked = alembic(database_url, "check")
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_platforms_table_is_adopted_as_it_is(empty_database_url: str) -> None:
    query(empty_database_url, OTHER_TABLE)
    columns = (
        "SELECT column_name, data_type, is_nullable FROM information_schema.columns"
        " WHERE table_name = 'sites' ORDER BY ordinal_position"
    )
    before = (query(empty_database_url, columns), query(empty_database_url, "TABLE sites"))
    migrate(empty_database_url)
    after = (query(empty_database_url, columns), query(empty_database_url, "TABLE sites"))
    assert after == before
    assert index_is_valid(empty_database_url)


def test_an_index_whose_build_was_interrupted_is_built_again(empty_database_url: str) -> None:
    query(empty_database_url, PLATFORM_TABLE)
    assert alembic(empty_database_url, "upgrade", "0002").returncode == 0
    query(
        empty_database_url,
        "UPDATE pg_index SET indisvalid = false"
        " WHERE indexrelid = 'sites_provision_in_flight'::regclass",
    )
    query(empty_database_url, "UPDATE provision_reaper_version SET version_num = '0001'")
    assert not index_is_valid(empty_database_url)
    migrate(empty_database_url)
    assert index_is_valid(empty_database_url)


def test_the_index_is_built_beside_a_writer_that_keeps_its_transaction_open(
    empty_database_url: str,
) -> None:
    query(empty_database_url, OTHER_TABLE)
    with (
        psycopg.connect(empty_database_url) as writer,
        psycopg.connect(empty_database_url, autocommit=True) as other,
        ThreadPoolExecutor() as pool,
    ):
        writer.execute("UPDATE sites SET owner = 'y'")
        migrating = pool.submit(migrate, empty_database_url)
        for number in range(20):
            other.execute("SET statement_timeout = '1s'")
            other.execute("INSERT INTO sites (id) VALUES (%s)", [100 + number])
            time.sleep(0.1)
        assert not migrating.done()
        writer.commit()
        migrating.result(timeout=60)
    assert index_is_valid(empty_database_url)


def test_two_processes_migrate_at_the_same_moment(empty_database_url: str) -> None:
    query(empty_database_url, PLATFORM_TABLE)
    with ThreadPoolExecutor() as pool:
        list(pool.map(migrate, [empty_database_url] * 3))
    assert index_is_valid(empty_database_url)


def test_an_upgrade_takes_no_role_its_sweeps_away(database_url: str) -> None:
    alembic(database_url, "downgrade", "0008")
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute('DROP ROLE IF EXISTS "Sweep;er"; CREATE ROLE "Sweep;er"')
        connection.execute('GRANT INSERT ON sweep_refusals TO "Sweep;er"')
        try:
            migrate(database_url)
            held = connection.execute(
                "SELECT string_agg(privilege_type, ', ' ORDER BY privilege_type), "
                "count(DISTINCT grantee) FROM information_schema.role_table_grants "
                "WHERE table_name = 'sweep_ends' AND grantee <> current_user"
            ).fetchone()
        finally:
            connection.execute('DROP OWNED BY "Sweep;er"; DROP ROLE "Sweep;er"')
    assert held == ("INSERT, SELECT, UPDATE", 1)


def test_a_downgrade_takes_back_ours_and_leaves_the_platforms(database_url: str) -> None:
    query(database_url, "INSERT INTO sites VALUES (1, 'shop.example', '{}')")
    assert alembic(database_url, "downgrade", "base").returncode == 0
    assert query(database_url, "SELECT id FROM sites") == [(1,)]
    assert query(database_url, "SELECT to_regclass('notices')") == [(None,)]
    migrate(database_url)
    assert index_is_valid(database_url)


def test_no_url_and_a_wrong_one_are_said_without_the_password() -> None:
    missing = alembic("", "upgrade", "head")
    assert missing.returncode != 0
    assert "PROVISION_DATABASE_URL" in missing.stderr
    wrong = alembic("mysql://root:hunter2@localhost/shop", "upgrade", "head")
    assert "not a PostgreSQL URL" in wrong.stderr
    assert "hunter2" not in wrong.stderr + wrong.stdout


def test_the_query_uses_the_index_on_a_million_sites(database_url: str) -> None:
    """Also from the sixth execution of the prepared statement on, when its plan may be generic."""
    dialect = PGDialect_psycopg(paramstyle="numeric_dollar")  # type: ignore[no-untyped-call]
    query_of_the_sweep = stuck_query().compile(dialect=dialect)
    values = query_of_the_sweep.params | {"threshold": "30 min", "limit": 10_000}
    arguments = ", ".join(f"'{values[name]}'" for name in query_of_the_sweep.positiontup or [])
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            """
            INSERT INTO sites
            SELECT i, 'shop-' || i || '.example', jsonb_build_object(
                'provision', jsonb_build_object('started_at', '2026-01-15T14:00:00Z'),
                'health_check', jsonb_build_object('completed_at', '2026-01-15T14:05:00Z'))
              FROM generate_series(1, 1000000) AS i
            """
        )
        connection.execute(
            "UPDATE sites SET metadata = metadata - 'health_check' WHERE id % 20000 = 0"
        )
        connection.execute("VACUUM ANALYZE sites")
        connection.execute(f"PREPARE sweep AS {query_of_the_sweep}")
        for mode in ("force_custom_plan", "force_generic_plan", "auto"):
            connection.execute(f"SET plan_cache_mode = {mode}")
            for _ in range(7):
                found = connection.execute(
                    f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE sweep ({arguments})"
                ).fetchone()
            assert found
            plan = found[0][0]["Plan"]
            assert scans(plan) == ["sites_provision_in_flight"], plan
            assert plan["Actual Rows"] == 50
            assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 60


def scans(plan: dict[str, Any]) -> list[str]:
    """The index, or the table, of each scan in a plan."""
    here = [plan.get("Index Name") or plan["Relation Name"]] if "Scan" in plan["Node Type"] else []
    return here + [name for child in plan.get("Plans", []) for name in scans(child)]
