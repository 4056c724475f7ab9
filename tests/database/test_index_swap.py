"""A new function and index take the place of older ones: no sweep is blind, no stop breaks it."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.pool import NullPool

from provisioning.migrations.in_flight import bring_up_to_date, is_current
from provisioning.stamps import IN_FLIGHT_INDEX
from tests.commands import migrate

FIRST_RELEASE = r"""
CREATE FUNCTION iso_instant(t text) RETURNS timestamptz
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE COST 500 AS $f$
BEGIN
  IF t COLLATE "C" !~ '^(2[0-9]{3}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))|(2[0-9](0[48]|[2468][048]|[13579][26])|2[048]00)-02-29)[Tt ]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.,][0-9]{1,9})?([Zz]|[+-](0[0-9]|1[0-4])(:?[0-5][0-9])?)?$' THEN
    RETURN NULL;
  END IF;
  RETURN (translate(t, ',', '.') || CASE WHEN ltrim(substr(t, 20), '.,0123456789') = '' THEN 'Z' ELSE '' END)::timestamptz;
END $f$;
CREATE INDEX sites_provision_in_flight ON sites (iso_instant(metadata #>> '{provision,started_at}'), id)
  WHERE (metadata #>> '{provision,started_at}') IS NOT NULL
    AND (metadata #>> '{terminal_failure}') IS NULL
    AND (metadata #>> '{health_check,completed_at}') IS NULL;
"""  # noqa: E501

SITES = """
INSERT INTO sites VALUES
  (1, 'old-form.example', '{"provision": {"started_at": "2025-01-15T14:00:00Z"}}'),
  (2, 'java.example', '{"provision": {"started_at": "2025-01-15T15:00+01:00[Europe/Paris]"}}'),
  (3, 'twice.example', '"{\\"provision\\": {\\"started_at\\": \\"2025-01-15T14:00:00Z\\"}}"'),
  (4, 'live.example', '{"provision": {"started_at": "2025-01-15T14:00:00Z"},
                        "health_check": {"completed_at": "2025-01-15T14:05:00Z"}}');
""".replace("\\\\", "\\")

STUCK = """
SELECT array_agg(id ORDER BY id) FROM sites
 WHERE (metadata #>> '{provision,started_at}') IS NOT NULL
   AND (metadata #>> '{terminal_failure}') IS NULL
   AND (metadata #>> '{health_check,completed_at}') IS NULL
   AND iso_instant(metadata #>> '{provision,started_at}') < now() - interval '30 min'
"""
"""The sweep of the first release."""


@pytest.fixture
def first_release(database_url: str) -> str:
    """A database with the function and the index of the first release, and with sites."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(f"DROP INDEX {IN_FLIGHT_INDEX}")
        connection.execute("DROP FUNCTION iso_instant(text)")
        connection.execute(FIRST_RELEASE)
        connection.execute(SITES)
    return database_url


@pytest.fixture
def migrating(first_release: str) -> Iterator[Connection]:
    engine = create_engine(
        first_release.replace("postgresql:", "postgresql+psycopg:"),
        isolation_level="AUTOCOMMIT",
        poolclass=NullPool,
    )
    with engine.connect() as connection:
        yield connection


def by_index(url: str) -> Any:
    """What the first release's sweep finds, by its index alone."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET enable_seqscan = off")
        plan = "\n".join(row[0] for row in connection.execute(f"EXPLAIN {STUCK}"))
        assert IN_FLIGHT_INDEX in plan, plan
        found = connection.execute(STUCK).fetchone()
        return found and found[0]


def ours(url: str) -> list[str]:
    """The functions and indexes of ours that there are."""
    with psycopg.connect(url) as connection:
        return [
            row[0]
            for row in connection.execute(
                "SELECT proname::text FROM pg_proc WHERE proname LIKE 'iso_instant%' UNION ALL "
                "SELECT relname::text FROM pg_class WHERE relname LIKE 'sites_provision%' "
                "ORDER BY 1"
            )
        ]


def test_stamps_that_only_the_new_function_reads_are_found_after_the_migration(
    first_release: str,
) -> None:
    assert by_index(first_release) == [1]
    migrate(first_release)
    assert by_index(first_release) == [1, 2]
    assert ours(first_release) == ["iso_instant", IN_FLIGHT_INDEX]


def test_a_second_run_finds_everything_in_place_and_builds_nothing(migrating: Connection) -> None:
    bring_up_to_date(migrating)
    assert is_current(migrating)
    statements: list[str] = []
    event.listen(
        migrating, "before_cursor_execute", lambda *arguments: statements.append(arguments[2])
    )
    bring_up_to_date(migrating)
    assert not [text for text in statements if text.startswith(("CREATE", "ALTER"))]


@pytest.mark.parametrize(
    "damage",
    [
        f"DROP INDEX {IN_FLIGHT_INDEX}",
        f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{IN_FLIGHT_INDEX}'::regclass",
        f"DROP INDEX {IN_FLIGHT_INDEX}; DROP FUNCTION iso_instant(text)",
        f"DROP INDEX {IN_FLIGHT_INDEX}; CREATE INDEX {IN_FLIGHT_INDEX} ON sites (id)",
    ],
)
def test_what_is_missing_invalid_or_another_is_built_again(
    migrating: Connection, damage: str
) -> None:
    bring_up_to_date(migrating)
    for statement in damage.split("; "):
        migrating.exec_driver_sql(statement)
    assert not is_current(migrating)
    bring_up_to_date(migrating)
    assert is_current(migrating)


def test_the_older_sweep_finds_its_sites_at_every_moment_of_the_migration(
    first_release: str,
) -> None:
    """A writer keeps the build waiting, and so the state between open, for two seconds."""
    seen = []
    with psycopg.connect(first_release) as writer, ThreadPoolExecutor() as pool:
        writer.execute("UPDATE sites SET domain = 'x' WHERE id = 4")
        migration = pool.submit(migrate, first_release)
        held = time.monotonic() + 2
        while not migration.done():
            seen.append(by_index(first_release))
            if time.monotonic() > held:
                writer.commit()
        migration.result()
    assert len(seen) > 20
    assert {tuple(found) for found in seen} <= {(1,), (1, 2)}
    assert by_index(first_release) == [1, 2]


class Stopped(BaseException):
    """Ctrl-C, at a statement."""


@pytest.mark.parametrize("when", ["before_cursor_execute", "after_cursor_execute"])
def test_stopped_at_any_statement_it_is_finished_by_a_second_run(
    first_release: str, migrating: Connection, when: str
) -> None:
    finished = False
    statements = 0
    while not finished:
        reset(migrating)
        finished = run_until(migrating.engine, when, statements)
        assert by_index(first_release) in ([1], [1, 2])
        bring_up_to_date(migrating)
        assert is_current(migrating)
        assert by_index(first_release) == [1, 2]
        assert ours(first_release) == ["iso_instant", IN_FLIGHT_INDEX]
        statements += 1
    assert statements > 15, "each statement was stopped at"


def run_until(engine: Engine, when: str, statement: int) -> bool:
    """Run it, stopped at that statement. Whether it came to its end."""
    left = statement

    def stop(*_: Any) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Stopped

    with engine.connect() as connection:
        event.listen(connection, when, stop)
        try:
            bring_up_to_date(connection)
        except Stopped:
            return False
    return True


def reset(connection: Connection) -> None:
    """Back to the first release's function and index."""
    connection.exec_driver_sql(f"DROP INDEX IF EXISTS {IN_FLIGHT_INDEX}")
    connection.exec_driver_sql("DROP FUNCTION IF EXISTS iso_instant(text)")
    for statement in FIRST_RELEASE.split(";\nCREATE INDEX"):
        create = "" if "FUNCTION" in statement else "CREATE INDEX"
        connection.exec_driver_sql(create + statement)


def test_a_build_that_was_cut_is_built_again(first_release: str, migrating: Connection) -> None:
    with psycopg.connect(first_release) as writer, ThreadPoolExecutor() as pool:
        writer.execute("UPDATE sites SET domain = 'x' WHERE id = 4")
        backend = migrating.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
        build = pool.submit(bring_up_to_date, migrating)
        deadline = time.monotonic() + 20
        while f"{IN_FLIGHT_INDEX}_next" not in ours(first_release):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        with psycopg.connect(first_release, autocommit=True) as other:
            other.execute("SELECT pg_cancel_backend(%s)", [backend])
        assert build.exception(timeout=20) is not None
        assert by_index(first_release) == [1]
        writer.commit()
    bring_up_to_date(migrating)
    assert by_index(first_release) == [1, 2]
    assert ours(first_release) == ["iso_instant", IN_FLIGHT_INDEX]


def test_the_platforms_role_writes_to_rows_in_flight_where_functions_are_nobodys_by_default(
    first_release: str,
) -> None:
    """Case G09: the usual hardening, which a migration must not turn against the platform."""
    with psycopg.connect(first_release, autocommit=True) as connection:
        connection.execute("ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC")
        migrate(first_release)
        connection.execute("CREATE ROLE platform_g09")
        try:
            connection.execute("GRANT SELECT, UPDATE ON sites TO platform_g09")
            connection.execute("SET ROLE platform_g09")
            connection.execute("UPDATE sites SET metadata = metadata || '{\"a\": 1}' WHERE id < 3")
        finally:
            connection.execute("RESET ROLE")
            connection.execute("DROP OWNED BY platform_g09")
            connection.execute("DROP ROLE platform_g09")
