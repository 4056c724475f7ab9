"""`look`, `site`, `notices`, `prune`, `migrate`, `contract`: on a real database, by exit codes."""

import os
import subprocess
import sys

import psycopg
import pytest

from provisioning.chain.contract import contract
from tests.cli.conftest import FIRST, KEY, Sql, Tool, add, add_many, owe
from tests.commands import ROOT
from tests.conftest import free_port


def test_help_is_shown_to_who_asks_for_nothing(tool: Tool) -> None:
    shown = tool.run()
    for command in ("doctor", "look", "site", "notices", "prune", "migrate", "contract"):
        assert f"\n  {command} " in shown.output


@pytest.mark.parametrize(
    "command", [["look"], ["site", "1"], ["notices", "list"], ["prune"], ["migrate"]]
)
def test_without_a_database_a_command_ends_with_3_and_one_sentence(
    tool: Tool, command: list[str]
) -> None:
    tool.environment.delenv("PROVISION_DATABASE_URL")
    ended = tool.run(*command)
    assert ended.exit_code == 3
    assert ended.stdout == ""
    assert ended.stderr.startswith("PROVISION_DATABASE_URL: Field required.")


def test_a_database_that_is_away_ends_a_command_with_3_and_no_password(tool: Tool) -> None:
    tool.set(PROVISION_DATABASE_URL=f"postgresql://reaper:s3cret@127.0.0.1:{free_port()}/shop")
    ended = tool.run("look")
    assert ended.exit_code == 3
    assert "Traceback" not in ended.output
    assert "s3cret" not in ended.output


def test_look_shows_what_a_sweep_would_do_and_writes_nothing(tool: Tool, sql: Sql) -> None:
    add(sql, step="dns")
    before = sql("SELECT metadata FROM sites")
    shown = tool.run("look")
    assert shown.exit_code == 0
    assert "1 stuck site found: 1 would be reaped" in shown.stdout
    assert f"shop-{FIRST}.example" in shown.stdout
    assert sql("SELECT metadata FROM sites") == before
    assert sql("SELECT count(*) FROM terminal_failures") == [(0,)]


def test_look_ends_with_1_where_a_sweep_would_refuse(tool: Tool, sql: Sql) -> None:
    add_many(sql, 3)
    seen = tool.json("look", "--max-reap-per-run", "2", code=1)
    assert seen["would_refuse"].startswith("3 stuck sites, over the cap of 2 a run")
    assert seen["seen"]["stuck_total"] == 3
    assert [site["site_id"] for site in seen["seen"]["stuck"]] == [FIRST, FIRST + 1, FIRST + 2]
    assert "A sweep would refuse" in tool.run("look", "--max-reap-per-run", "2").stdout
    assert tool.json("look", "--max-reap-per-run", "3")["would_refuse"] is None


def test_look_takes_a_threshold(tool: Tool, sql: Sql) -> None:
    add(sql)
    assert tool.json("look", "--stuck-after-minutes", "120")["seen"]["stuck_total"] == 0


def test_a_mistake_on_the_command_line_ends_with_2(tool: Tool) -> None:
    assert tool.run("look", "--stuck-after-minutes", "0").exit_code == 2
    assert tool.run("notices", "resend").exit_code == 2
    assert tool.run("notices", "acknowledge", "--all", "--host", "x").exit_code == 2


def test_site_shows_its_stamps_its_failures_and_their_notices(tool: Tool, sql: Sql) -> None:
    started = add(sql, step="dns", webhook="https://m.example/s3cret", webhook_secret=KEY)
    first, second = owe(sql, error="503"), owe(sql, given_up=True)
    tool.set(PREFECT_UI_URL="http://ui.example/")
    found = tool.json("site", str(FIRST))
    assert found["stamps"]["started_at"] == started
    assert found["stamps"]["step"] == "dns"
    assert sorted(n["id"] for f in found["failures"] for n in f["notices"]) == sorted(
        [first, second]
    )
    assert all(len(failure["notices"]) == 1 for failure in found["failures"])
    assert found["failures"][0]["run"].startswith("http://ui.example/v2/runs/flow-run/")
    shown = tool.run("site", str(FIRST)).stdout
    assert f"webhook {first} owed" in shown
    assert f"webhook {second} given up" in shown
    assert "dns failed" in shown
    for secret in ("s3cret", KEY):
        assert secret not in str(found) + shown


def test_site_shows_the_ledger_of_a_site_that_was_deleted(tool: Tool, sql: Sql) -> None:
    owe(sql)
    found = tool.json("site", str(FIRST))
    assert found["stamps"] is None
    assert len(found["failures"]) == 1
    assert "deleted" in tool.run("site", str(FIRST)).stdout


@pytest.mark.parametrize("site_id", ["3000000001", "no-number", "99999999999999999999"])
def test_a_site_that_nobody_knows_ends_with_1(tool: Tool, site_id: str) -> None:
    ended = tool.run("site", site_id)
    assert ended.exit_code == 1
    assert "There is no site" in ended.stderr


def test_site_shows_hostile_text_as_text(tool: Tool, sql: Sql) -> None:
    add(sql, step="\x1b]0;owned\x07 [red]x[/red] \u202egnp")
    shown = tool.run("site", str(FIRST)).stdout
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "[red]x[/red]" in shown
    assert "\x9b" not in tool.run("site", str(FIRST), "--json").stdout


def test_notices_are_listed_sent_again_and_acknowledged(tool: Tool, sql: Sql) -> None:
    webhook, teardown = owe(sql, error="503"), owe(sql, kind="teardown", given_up=True)
    listed = tool.json("notices", "list")
    assert [(each["id"], each["standing"]) for each in listed] == [
        (teardown, "given up"),
        (webhook, "owed"),
    ]
    assert "s3cret" not in str(listed)
    shown = tool.run("notices", "list").stdout.splitlines()
    assert shown[1].startswith(f"{webhook}  webhook for site {FIRST} (shop.example) to https://")

    assert tool.json("notices", "acknowledge", teardown) == [teardown]
    assert tool.json("notices", "list")[0]["standing"] == "given up, acknowledged"
    assert tool.run("notices", "acknowledge", teardown).exit_code == 1

    assert tool.run("notices", "resend", teardown).stdout.startswith(f"{teardown} is due")
    assert {each["standing"] for each in tool.json("notices", "list")} == {"owed"}
    assert sql("SELECT next_attempt_at <= now() FROM notices WHERE id = %s", teardown) == [(True,)]


def test_notices_of_one_receiver_are_listed_by_its_host(tool: Tool, sql: Sql) -> None:
    webhook = owe(sql)
    owe(sql, kind="teardown")
    assert [n["id"] for n in tool.json("notices", "list", "--host", "merchant.example")] == [
        webhook
    ]
    assert tool.json("notices", "list", "--host", "other.example") == []


def test_prune_deletes_what_was_settled_long_ago(tool: Tool, sql: Sql) -> None:
    old, kept = owe(sql), owe(sql)
    sql("UPDATE notices SET delivered_at = now() - interval '91 days' WHERE id = %s", old)
    assert tool.json("prune")["notices"] == 1
    assert [str(row[0]) for row in sql("SELECT id FROM notices")] == [kept]
    assert tool.run("prune").stdout.startswith("Deleted 0")


def test_migrate_brings_a_database_up_to_date_and_the_tool_is_on_the_path(
    empty_database_url: str,
) -> None:
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE IF NOT EXISTS sites (id bigint PRIMARY KEY, domain text, metadata jsonb)"
        )
    done = script("migrate", PROVISION_DATABASE_URL=empty_database_url)
    assert done.returncode == 0, done.stderr
    looked = script("look", PROVISION_DATABASE_URL=empty_database_url)
    assert looked.returncode == 0, looked.stderr
    assert "Nothing was stuck" in looked.stdout


def test_the_tool_follows_the_names_of_the_platform(
    tool: Tool, sql: Sql, database_url: str
) -> None:
    add(sql)
    sql("CREATE SCHEMA shop")
    sql("ALTER TABLE sites SET SCHEMA shop")
    sql('ALTER TABLE shop.sites RENAME TO "Tenants"')
    sql('ALTER TABLE shop."Tenants" RENAME metadata TO "Doc"')
    names = {
        "PROVISION_SITES_TABLE": 'shop."Tenants"',
        "PROVISION_SITES_METADATA": '"Doc"',
        "PROVISION_SCHEMA": "public",
    }
    shown = script("site", str(FIRST), PROVISION_DATABASE_URL=database_url, **names)
    assert shown.returncode == 0, shown.stderr
    assert f"shop-{FIRST}.example" in shown.stdout


def test_the_contract_is_printed_to_be_piped_into_a_file(tool: Tool) -> None:
    assert tool.run("contract").stdout == contract()


def script(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The console script, in a process of its own."""
    return subprocess.run(
        [str(ROOT / os.path.dirname(sys.executable) / "provision-reaper"), *arguments],
        env=os.environ | environment,
        cwd="/",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
