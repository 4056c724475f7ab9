"""The view of numbers for dashboards: right, cheap, in nobody's way, and without secrets."""

import json
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from tests.commands import ROOT, alembic, migrate
from tests.sites import OLD, YOUNG, stamp

Sql = Callable[..., list[tuple[Any, ...]]]
FIRST = 3_000_000_000


@pytest.fixture
def sql(database_url: str) -> Iterator[Sql]:
    """One statement of the platform's or of an administrator's; its rows."""
    with psycopg.connect(database_url, autocommit=True) as connection:

        def run(statement: str, *values: Any) -> list[tuple[Any, ...]]:
            cursor = connection.execute(statement, values or None)
            return cursor.fetchall() if cursor.description else []

        yield run


@pytest.fixture
def dashboard(sql: Sql, database_url: str) -> Iterator[psycopg.Connection]:
    """A connection as the role of docs/dashboards.md."""
    block = re.search(
        r"```sql\n(CREATE ROLE dashboard.*?)```", (ROOT / "docs/dashboards.md").read_text(), re.S
    )
    assert block
    sql("DROP ROLE IF EXISTS dashboard")
    sql(block[1])
    url = database_url.replace("//postgres@", "//dashboard@")
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection
    sql("DROP OWNED BY dashboard")


def add(sql: Sql, site_id: int, metadata: Any) -> None:
    sql("INSERT INTO sites VALUES (%s, 'shop.example', %s)", site_id, json.dumps(metadata))


def status(sql: Sql) -> dict[str, Any]:
    (row,) = sql("SELECT to_jsonb(s) FROM provision_reaper_status AS s")
    return dict(row[0])


def test_every_site_is_counted_where_a_sweep_would_see_it(sql: Sql) -> None:
    old, young = stamp(OLD), stamp(YOUNG)
    for site_id, metadata in enumerate(
        [
            {"provision": {"started_at": young}},
            {"provision": {"started_at": old}},
            {"provision": {"started_at": old, "hold": "support"}},
            {"provision": {"started_at": old, "deadline": stamp(-timedelta(hours=1))}},
            {"provision": {"started_at": "yesterday"}},
            json.dumps({"provision": {"started_at": old}}),
            {"provision": {"started_at": old}, "terminal_failure": {}},
            {"provision": {"started_at": old}, "health_check": {"completed_at": old}},
            {},
        ],
        start=FIRST,
    ):
        add(sql, site_id, metadata)
    seen = status(sql)
    numbers = ("in_flight", "stuck", "unreadable", "on_hold", "before_deadline")
    assert [seen[name] for name in numbers] == [6, 1, 2, 1, 1]
    assert seen["oldest_stuck_at"] == seen["oldest_started_at"]
    assert seen["oldest_stuck_at"].startswith(old[:16])


def test_notices_failures_and_refusals_are_counted(sql: Sql) -> None:
    sql(
        "INSERT INTO terminal_failures (id, site_id, attempt, failed_at, reason, source) "
        "SELECT gen_random_uuid(), i, i, now() - i * interval '50 min', 'r', 'watchdog' "
        "FROM generate_series(1, 2) AS i"
    )
    for kind, column in [
        ("webhook", "last_error"),
        ("teardown", "last_error"),
        ("webhook", "given_up_at"),
        ("teardown", "given_up_at"),
        ("webhook", "delivered_at"),
        ("teardown", "given_up_at, acknowledged_at"),
    ]:
        sql(
            "INSERT INTO terminal_failures (id, site_id, attempt, reason, source) "
            "VALUES (gen_random_uuid(), 'x', gen_random_uuid(), 'r', 'chain')"
        )
        sql(
            f"INSERT INTO notices (id, failure_id, kind, body, {column}) "
            f"SELECT gen_random_uuid(), id, '{kind}', ''{', now()' * len(column.split(','))} "
            "FROM terminal_failures WHERE source = 'chain' "
            "AND id NOT IN (SELECT failure_id FROM notices)"
        )
    sql(
        "INSERT INTO sweep_refusals (flow_run_id, cap, threshold, stands, over_at, candidates) "
        "VALUES (gen_random_uuid(), 25, '30 min', true, NULL, '[]'), "
        "(gen_random_uuid(), 25, '30 min', false, now(), '[]')"
    )
    seen = status(sql)
    assert [
        seen[f"{kind}s_{how}"] for how in ("owed", "given_up") for kind in ("webhook", "teardown")
    ] == [1, 1, 1, 1]
    assert seen["reaped_last_hour"] == 1
    assert seen["last_reaped_at"] is not None
    assert (seen["refusals_open"], seen["refusal_stands"]) == (1, True)
    assert seen["last_refused_at"] is not None


def test_the_newest_end_of_a_sweep_is_the_last_sweep(sql: Sql) -> None:
    for deployment, ago, state in [("slow", 9, "Refused"), ("every-5-minutes", 4, "Clean")]:
        sql(
            "INSERT INTO sweep_ends VALUES (%s, gen_random_uuid(), now() - %s * interval '1 min', "
            "%s)",
            deployment,
            ago,
            state,
        )
    (seen,) = sql(
        "SELECT last_sweep_state, date_trunc('minute', looked_at - last_sweep_at) "
        "FROM provision_reaper_status"
    )
    assert seen == ("Clean", timedelta(minutes=4))


def test_an_empty_database_has_a_row_of_zeros(sql: Sql) -> None:
    seen = status(sql)
    assert {value for value in seen.values() if isinstance(value, int)} == {0}
    assert seen["refusal_stands"] is False
    assert (seen["last_sweep_at"], seen["last_sweep_state"]) == (None, None)


def test_reading_it_reads_no_table_of_many_sites(sql: Sql) -> None:
    sql(
        "INSERT INTO sites SELECT i, 'x', jsonb_build_object('provision', jsonb_build_object("
        "'started_at', '2025-01-15T14:00:00Z'), 'health_check', jsonb_build_object("
        "'completed_at', 'x')) FROM generate_series(1, 20000) AS i"
    )
    add(sql, FIRST, {"provision": {"started_at": stamp(OLD)}})
    sql("ANALYZE sites")
    scans = "SELECT pg_stat_get_numscans('sites'::regclass)"
    sql("SELECT pg_stat_force_next_flush()")
    before = sql(scans)
    assert status(sql)["stuck"] == 1
    sql("SELECT pg_stat_force_next_flush()")
    assert sql(scans) == before


def test_it_stands_in_nobodys_way(sql: Sql) -> None:
    sql("ALTER TABLE sites ALTER metadata TYPE jsonb USING metadata")
    sql("ALTER TABLE sites DROP COLUMN metadata")
    sql("DROP TABLE sites")


def test_its_reader_sees_the_numbers_and_no_site(dashboard: psycopg.Connection, sql: Sql) -> None:
    add(sql, FIRST, {"provision": {"started_at": stamp(OLD)}})
    row = dashboard.execute("SELECT stuck FROM provision_reaper_status").fetchone()
    assert row == (1,)
    for table in ("sites", "notices", "sweep_refusals", "sweep_ends"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            dashboard.execute(f"SELECT * FROM {table}")


def test_who_was_not_granted_it_sees_nothing(sql: Sql, database_url: str) -> None:
    sql("DROP ROLE IF EXISTS stranger")
    sql("CREATE ROLE stranger LOGIN")
    with (
        psycopg.connect(database_url.replace("//postgres@", "//stranger@")) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute("SELECT * FROM provision_reaper_numbers()")


def test_each_query_of_the_grafana_dashboard_runs_as_its_role(
    dashboard: psycopg.Connection, sql: Sql
) -> None:
    add(sql, FIRST, {"provision": {"started_at": stamp(OLD)}})
    panels = json.loads((ROOT / "docs/grafana-dashboard.json").read_text())["panels"]
    assert len(panels) > 10
    for panel in panels:
        for target in panel["targets"]:
            query = re.sub(
                r"\$__timeFilter\((\w+)\)",
                r"\1 BETWEEN now() - interval '7 days' AND now()",
                target["rawSql"],
            )
            assert "$" not in query, query
            dashboard.execute(query)


def test_other_names_and_a_schema_of_our_own_are_followed(empty_database_url: str) -> None:
    names = {
        "PROVISION_SITES_TABLE": 'shop."Tenants"',
        "PROVISION_SITES_METADATA": '"Doc"',
        "PROVISION_SITES_DELETED_AT": "gone",
        "PROVISION_SCHEMA": "own",
    }
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA shop; CREATE SCHEMA own")
        connection.execute(
            'CREATE TABLE shop."Tenants" (id bigint PRIMARY KEY, domain text, "Doc" jsonb, '
            "gone date)"
        )
        migrate(empty_database_url, **names)
        document = json.dumps({"provision": {"started_at": stamp(OLD)}})
        connection.execute(
            """INSERT INTO shop."Tenants" VALUES (1, 'a', %(d)s, NULL), (2, 'b', %(d)s, now())""",
            {"d": document},
        )
        found = connection.execute("SELECT in_flight, stuck FROM own.provision_reaper_status")
        assert found.fetchall() == [(1, 1)]


def test_an_upgrade_makes_it_again_and_a_downgrade_takes_it_out(
    database_url: str, sql: Sql
) -> None:
    sql("DROP VIEW provision_reaper_status")
    migrate(database_url)
    assert status(sql)["stuck"] == 0
    assert alembic(database_url, "downgrade", "0007").returncode == 0
    assert sql(
        "SELECT to_regclass('provision_reaper_status'), to_regproc('provision_reaper_numbers')"
    ) == [(None, None)]
