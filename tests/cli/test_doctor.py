"""The doctor finds each fault that could make a sweep blind, powerless, slow or unsafe."""

import json
import socket
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import time_machine
from sqlalchemy import make_url

from deployments.postgres import local_postgres
from provisioning.cli.checks import Level
from provisioning.cli.database_checks import check_in_flight, check_version
from provisioning.sweep.snapshot import Snapshot
from tests.cli.conftest import FIRST, KEY, Sql, Tool, add, add_many, owe
from tests.conftest import adopt, free_port


@pytest.fixture
def listener() -> Iterator[str]:
    """The address of somebody who takes connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/teardown?token=s3cret"


def test_an_installation_in_order_is_all_ok_but_for_what_is_not_set(
    tool: Tool, sql: Sql, listener: str
) -> None:
    add(sql)
    tool.set(PROVISION_TEARDOWN_URL=listener.replace("127.0.0.1", "localhost"))
    sql(
        "INSERT INTO sweep_ends VALUES ('every-5-minutes', gen_random_uuid(), "
        "now() - interval '4 min', 'Clean')"
    )
    found = tool.doctor()
    not_ok = {subject for subject, (level, _) in found.items() if level != "ok"}
    assert not_ok == {"Prefect", "teardowns"}, found
    assert "PREFECT_API_URL is not set" in found["Prefect"][1]
    assert "reached without TLS" in found["teardowns"][1]
    assert found["in flight"][1].startswith("1 site, 1 of them started more than 30 minutes ago")
    assert " on the socket /" in found["connection"][1]
    assert "The last one here ended 4 min ago, Clean." in found["last sweep"][1]
    assert "s3cret" not in json.dumps(found)


def test_a_shell_reads_a_line_for_each_and_the_numbers_at_the_end(tool: Tool, sql: Sql) -> None:
    add(sql, started_at="yesterday")
    shown = tool.run("doctor")
    assert shown.exit_code == 0
    assert "warning  stamps" in shown.stdout
    assert f"site {FIRST}" in shown.stdout
    assert "0 wrong" in shown.stderr


def test_no_database_url_is_said(tool: Tool) -> None:
    tool.environment.delenv("PROVISION_DATABASE_URL")
    level, finding = tool.doctor(code=1)["settings"]
    assert level == "wrong"
    assert "PROVISION_DATABASE_URL" in finding


def test_a_setting_that_can_not_be_used_is_said_without_its_value(tool: Tool) -> None:
    tool.set(PROVISION_WEBHOOK_SECRET="whsec_c2hvcnQ=")
    level, finding = tool.doctor(code=1)["settings"]
    assert (level, "PROVISION_WEBHOOK_SECRET" in finding) == ("wrong", True)
    assert "c2hvcnQ" not in finding


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://reaper:s3cret@127.0.0.1:{port}/shop",
        "postgresql://reaper:s3cret@no-such-host.invalid/shop",
    ],
)
def test_a_database_that_can_not_be_reached_is_said_without_the_password(
    tool: Tool, url: str
) -> None:
    tool.set(PROVISION_DATABASE_URL=url.format(port=free_port()))
    level, finding = tool.doctor(code=1)["database"]
    assert level == "wrong"
    assert "s3cret" not in finding


def test_a_version_that_is_too_old_is_said() -> None:
    assert check_version(140_012, "14.12").level is Level.WRONG
    assert check_version(150_000, "15.0").level is Level.OK


def test_session_settings_that_are_not_in_force_are_said(tool: Tool) -> None:
    """As behind a pooler that drops what a connection begins with."""
    tool.environment.setattr("provisioning.database.as_options", lambda: "")
    level, finding = tool.doctor(code=1)["session"]
    assert level == "wrong"
    assert "lock_timeout is 0 and not 500ms" in finding
    assert "PROVISION_DATABASE_POOLED" in finding


def test_clocks_that_differ_are_said(tool: Tool) -> None:
    with time_machine.travel(datetime.now(UTC) + timedelta(hours=1), tick=True):
        level, finding = tool.doctor(code=1)["clock"]
    assert level == "wrong"
    assert "behind the worker's" in finding


@pytest.mark.parametrize(
    ("subject", "fault", "said"),
    [
        ("table and index", "ALTER TABLE sites RENAME TO tenants", "There is public.tenants"),
        ("table and index", "ALTER TABLE sites RENAME domain TO host", "a column `domain`"),
        (
            "table and index",
            "DROP INDEX sites_provision_in_flight; "
            "ALTER TABLE sites ALTER metadata TYPE json USING metadata::json",
            "only jsonb can be swept",
        ),
        (
            "table and index",
            "ALTER TABLE sites RENAME TO all_sites; CREATE VIEW sites AS TABLE all_sites",
            "is a view, and only a table can be swept",
        ),
        (
            "table and index",
            "DROP TABLE sites; CREATE FOREIGN DATA WRAPPER far; CREATE SERVER far FOREIGN DATA "
            "WRAPPER far; CREATE FOREIGN TABLE sites (id bigint) SERVER far",
            "is a foreign table",
        ),
        ("table and index", "DROP INDEX sites_provision_in_flight", "index sites_provision_in"),
        (
            "table and index",
            "UPDATE pg_index SET indisvalid = false "
            "WHERE indexrelid = 'sites_provision_in_flight'::regclass",
            "is invalid",
        ),
        (
            "table and index",
            "DROP INDEX sites_provision_in_flight; "
            "CREATE INDEX sites_provision_in_flight ON sites (id)",
            "another one than this program's",
        ),
        (
            "table and index",
            "CREATE OR REPLACE FUNCTION iso_instant(t text) RETURNS timestamptz "
            "LANGUAGE sql IMMUTABLE STRICT AS 'SELECT NULL::timestamptz'",
            "the function iso_instant on database",
        ),
        ("table and index", "DROP TABLE notices", "the migrations have not run"),
        (
            "row security",
            "ALTER TABLE sites ENABLE ROW LEVEL SECURITY",
            "ALTER ROLE reaper BYPASSRLS",
        ),
        (
            "row security",
            "ALTER TABLE notices ENABLE ROW LEVEL SECURITY; "
            "CREATE POLICY everything ON notices USING (true)",
            "on notices",
        ),
        ("rights", "REVOKE EXECUTE ON FUNCTION iso_instant(text) FROM PUBLIC", "GRANT EXECUTE"),
        ("table and index", "REVOKE USAGE ON SCHEMA public FROM PUBLIC", "There is public.sites"),
        ("rights", "REVOKE UPDATE (metadata) ON sites FROM reaper", "GRANT UPDATE (metadata)"),
        ("rights", "REVOKE SELECT ON notices FROM reaper", "GRANT SELECT ON notices TO reaper"),
    ],
    ids=lambda value: value[:50],
)
def test_what_makes_a_sweep_blind_or_powerless_is_wrong(
    tool: Tool, sql: Sql, subject: str, fault: str, said: str
) -> None:
    for statement in fault.split("; "):
        sql(statement)
    level, finding = tool.doctor(code=1)[subject]
    assert level == "wrong"
    assert said in finding


@pytest.fixture
def standby_url() -> Iterator[str]:
    """A server in recovery, as a replica is, with a database that was migrated before."""
    with tempfile.TemporaryDirectory("", "reaper-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with local_postgres(folder, durable=False) as primary:
            primary.ensure_database("shop")
            adopt(primary.url("shop"))
        (folder / "cluster" / "standby.signal").touch()
        with local_postgres(folder, durable=False) as standby:
            yield standby.url("shop")


def test_a_standby_is_wrong(tool: Tool, standby_url: str) -> None:
    tool.set(PROVISION_DATABASE_URL=standby_url)
    level, finding = tool.doctor(code=1)["primary"]
    assert level == "wrong"
    assert "target_session_attrs=read-write" in finding


def test_several_faults_are_all_said(tool: Tool, sql: Sql) -> None:
    sql("DROP INDEX sites_provision_in_flight")
    sql("REVOKE UPDATE (metadata) ON sites FROM reaper")
    sql("ALTER TABLE sites ENABLE ROW LEVEL SECURITY")
    found = tool.doctor(code=1)
    assert {subject for subject, (level, _) in found.items() if level == "wrong"} == {
        "table and index",
        "rights",
        "row security",
    }


def test_an_encoding_without_letters_is_said(tool: Tool, sql: Sql, database_url: str) -> None:
    name = f"{make_url(database_url).database}_ascii"
    sql(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING SQL_ASCII LOCALE 'C'")
    try:
        tool.set(PROVISION_DATABASE_URL=str(make_url(database_url).set(database=name)))
        level, finding = tool.doctor(code=1)["session"]
    finally:
        sql(f"DROP DATABASE {name} WITH (FORCE)")
    assert (level, "SQL_ASCII" in finding) == ("wrong", True)


def test_triggers_and_rules_on_an_update_are_named(tool: Tool, sql: Sql) -> None:
    sql("CREATE FUNCTION undo() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")
    sql("CREATE TRIGGER audit BEFORE UPDATE ON sites FOR EACH ROW EXECUTE FUNCTION undo()")
    sql("CREATE TRIGGER born AFTER INSERT ON sites FOR EACH ROW EXECUTE FUNCTION undo()")
    sql("CREATE RULE elsewhere AS ON UPDATE TO sites DO ALSO NOTHING")
    level, finding = tool.doctor()["triggers"]
    assert level == "warning"
    assert "On each mark runs: audit, elsewhere." in finding


def test_unreadable_stamps_are_shown_with_examples(tool: Tool, sql: Sql) -> None:
    add(sql)
    add(sql, FIRST + 1, started_at="15/01/2025\x1b[2J")
    level, finding = tool.doctor()["stamps"]
    assert level == "warning"
    assert f"site {FIRST + 1} (shop-{FIRST + 1}.example): 15/01/2025 [2J" in finding


def test_documents_that_were_encoded_twice_are_unreadable_ones(tool: Tool, sql: Sql) -> None:
    document = json.dumps({"provision": {"started_at": "2025-01-15T14:00:00Z"}})
    add(sql)
    sql("INSERT INTO sites VALUES (%s, 'shop', %s)", FIRST + 1, json.dumps(document))
    level, finding = tool.doctor()["stamps"]
    assert level == "warning"
    assert f"site {FIRST + 1} (shop)" in finding


def test_a_platform_whose_stamps_are_mostly_unreadable_is_wrong(tool: Tool, sql: Sql) -> None:
    add_many(sql, 5, started_at="15/01/2025")
    assert tool.doctor(code=1)["stamps"][0] == "wrong"


def test_stamps_without_an_offset_are_told_apart_from_those_with_one(tool: Tool, sql: Sql) -> None:
    add(sql)
    assert "offsets" not in tool.doctor()
    add(sql, FIRST + 1, started_at="2025-01-15 14:00:00.123456")
    level, finding = tool.doctor()["offsets"]
    assert level == "warning"
    assert "1 start stamp without an offset, such as 2025-01-15 14:00:00.123456" in finding


def test_sites_on_hold_are_said(tool: Tool, sql: Sql) -> None:
    add(sql, hold="support looks")
    assert tool.doctor()["on hold"] == (
        "warning",
        "1 site on hold: no sweep reaps what is on hold.",
    )


def test_a_look_that_takes_long_is_said() -> None:
    now = datetime.now(UTC)
    seen = Snapshot(now, now, (), 0, (), 0, 200_000, 0)
    assert check_in_flight(seen, 0.1).level is Level.OK
    assert "took 12 s" in check_in_flight(seen, 12).finding


def test_keys_that_are_missing_are_said(tool: Tool) -> None:
    tool.environment.delenv("PROVISION_WEBHOOK_SECRET")
    assert "sent unsigned" in tool.doctor()["keys"][1]


def test_teardowns_without_a_key_are_said(tool: Tool, listener: str) -> None:
    tool.set(PROVISION_TEARDOWN_URL=listener)
    tool.environment.delenv("PROVISION_TEARDOWN_SECRET")
    assert "Teardowns are sent unsigned" in tool.doctor()["keys"][1]


def test_a_key_that_merchants_share_with_the_platform_is_said(tool: Tool) -> None:
    tool.set(PROVISION_TEARDOWN_SECRET=f"{KEY.removeprefix('whsec_')}")
    level, finding = tool.doctor()["keys"]
    assert (level, "share a key" in finding) == ("warning", True)


def test_a_key_that_may_be_guessed_is_said(tool: Tool) -> None:
    tool.set(PROVISION_WEBHOOK_SECRET="whsec_" + "YWJj" * 8)
    level, finding = tool.doctor()["keys"]
    assert (level, "few different bytes" in finding) == ("warning", True)
    assert "YWJj" not in finding


def test_private_networks_for_merchants_are_said(tool: Tool) -> None:
    tool.set(PROVISION_WEBHOOK_ALLOW_PRIVATE_NETWORKS="true")
    assert "your own network" in tool.doctor()["keys"][1]


def test_a_teardown_address_where_nobody_listens_is_wrong(tool: Tool) -> None:
    tool.set(PROVISION_TEARDOWN_URL=f"http://127.0.0.1:{free_port()}/s3cret")
    level, finding = tool.doctor(code=1)["teardowns"]
    assert level == "wrong"
    assert "s3cret" not in finding


def test_a_teardown_address_that_does_not_exist_is_wrong(tool: Tool) -> None:
    tool.set(PROVISION_TEARDOWN_URL="https://teardowns.invalid/")
    assert tool.doctor(code=1)["teardowns"][0] == "wrong"


def test_a_teardown_that_was_given_up_is_said(tool: Tool, sql: Sql) -> None:
    owe(sql, kind="teardown", given_up=True)
    level, finding = tool.doctor()["notices"]
    assert level == "warning"
    assert "1 teardown given up" in finding


def test_a_database_that_nobody_sweeps_is_wrong(tool: Tool, sql: Sql) -> None:
    assert tool.doctor()["last sweep"][0] == "warning", "none has ended yet"
    sql(
        "INSERT INTO sweep_ends VALUES ('', gen_random_uuid(), now() - interval '3 h', %s)",
        "Refused\x1b[2J",
    )
    level, finding = tool.doctor(code=1)["last sweep"]
    assert level == "wrong"
    assert finding.startswith("The last one here ended 3 h ago, Refused [2J.")
