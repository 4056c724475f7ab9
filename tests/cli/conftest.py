"""Shared by the tests of the tool: a database with the README's role, and the tool itself."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner, Result

from provisioning.cli.commands import app
from provisioning.settings import settings
from tests.database.test_permissions import rights_of_the_readme
from tests.sites import OLD, stamp

Sql = Callable[..., list[tuple[Any, ...]]]

FIRST = 3_000_000_000
KEY = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
OTHER_KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@dataclass
class Tool:
    """The tool, run in this process as a shell runs it, by the role of the README."""

    environment: pytest.MonkeyPatch

    def run(self, *arguments: str) -> Result:
        """One command."""
        settings.cache_clear()
        result = CliRunner().invoke(app, list(arguments))
        assert result.exception is None or isinstance(result.exception, SystemExit)
        return result

    def json(self, *arguments: str, code: int = 0) -> Any:
        """What a command prints with --json."""
        result = self.run(*arguments, "--json")
        assert result.exit_code == code, result.output
        return json.loads(result.stdout)

    def doctor(self, code: int = 0) -> dict[str, tuple[str, str]]:
        """By subject: the level and the finding. Of two findings, the worse one."""
        found = {}
        for check in sorted(self.json("doctor", code=code), key=lambda check: check["level"]):
            found[check["subject"]] = (check["level"], check["finding"])
        return found

    def set(self, **variables: str) -> None:
        """Set variables of the environment."""
        for name, value in variables.items():
            self.environment.setenv(name, value)


@pytest.fixture
def sql(database_url: str) -> Iterator[Sql]:
    """One statement of the platform's or of an administrator's; its rows."""
    with psycopg.connect(database_url, autocommit=True) as connection:

        def run(statement: str, *values: Any) -> list[tuple[Any, ...]]:
            named = values[0] if values and isinstance(values[0], dict) else values
            cursor = connection.execute(statement, named)
            return cursor.fetchall() if cursor.description else []

        yield run


@pytest.fixture
def tool(sql: Sql, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tool]:
    """The tool on a migrated database, as the role of the README, with two good keys."""
    sql("DROP ROLE IF EXISTS reaper")
    for statement in rights_of_the_readme():
        sql(statement)
    tool = Tool(monkeypatch)
    tool.set(
        PROVISION_DATABASE_URL=database_url.replace("//postgres@", "//reaper@"),
        PROVISION_WEBHOOK_SECRET=KEY,
        PROVISION_TEARDOWN_SECRET=OTHER_KEY,
    )
    yield tool
    settings.cache_clear()
    sql("DROP OWNED BY reaper")


def add(sql: Sql, site_id: int = FIRST, **provision: Any) -> str:
    """A site in flight, by default for 90 minutes; its start stamp."""
    started = str(provision.setdefault("started_at", stamp(OLD)))
    sql(
        "INSERT INTO sites VALUES (%s, %s, %s)",
        site_id,
        f"shop-{site_id}.example",
        json.dumps({"provision": provision}),
    )
    return started


def add_many(sql: Sql, number: int, **provision: Any) -> None:
    """That many of them."""
    for site_id in range(FIRST, FIRST + number):
        add(sql, site_id, **provision)


def owe(
    sql: Sql,
    site_id: int = FIRST,
    *,
    kind: str = "webhook",
    given_up: bool = False,
    error: str = "",
) -> str:
    """A failed attempt with a notice of it; the notice's id."""
    (failure,) = sql(
        "INSERT INTO terminal_failures (id, site_id, domain, attempt, reason, source, "
        "flow_run_id) VALUES (gen_random_uuid(), %s, 'shop.example', gen_random_uuid(), 'dns "
        "failed', 'chain', gen_random_uuid()) RETURNING id",
        str(site_id),
    )
    (notice,) = sql(
        "INSERT INTO notices (id, failure_id, kind, body, url, secret, receiver, last_error, "
        "given_up_at, next_attempt_at) VALUES (gen_random_uuid(), %s, %s, '', %s, %s, %s, %s, "
        "CASE WHEN %s THEN now() END, now() + interval '1 hour') RETURNING id",
        *(failure[0], kind),
        "https://merchant.example/hook?token=s3cret" if kind == "webhook" else None,
        KEY if kind == "webhook" else None,
        "https://merchant.example" if kind == "webhook" else None,
        *(error or None, given_up),
    )
    return str(notice[0])
