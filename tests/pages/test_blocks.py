"""What the pages print can be pasted: run in a fresh shell, or at least known to its program."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.commands import ROOT
from tests.database.test_permissions import rights_of_the_readme
from tests.pages.blocks import Block, blocks, commands
from tests.sites import OLD, stamp

SITE = 3_000_000_042
HERE = {"provision-reaper", "alembic", "export", "."}
"""What runs on one machine without a Prefect server."""

ELSEWHERE = {"docker", "kubectl", "redis-server", "systemctl"}
"""Programs that are not here: nobody can say whether they know their commands."""


def runs_here(block: Block) -> bool:
    return all(words[0] in HERE or words[:2] == ["python", "-c"] for words in commands(block))


SHELL = [block for block in blocks("") if commands(block)]


@pytest.fixture
def platform(database_url: str) -> Iterator[psycopg.Connection]:
    """A database with a site that is stuck, and an attempt of it that failed before."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        provision = {"started_at": stamp(OLD), "webhook": "https://merchant.example/hook"}
        connection.execute(
            "INSERT INTO sites VALUES (%s, 'shop.example', %s)",
            (SITE, json.dumps({"provision": provision})),
        )
        connection.execute(
            "INSERT INTO terminal_failures (id, site_id, domain, attempt, reason, source) VALUES "
            "(gen_random_uuid(), %s, 'shop.example', '2025-01-15T14:00:00Z', 'r', 'chain')",
            (str(SITE),),
        )
        for kind, receiver in (("webhook", "https://merchant.example"), ("teardown", None)):
            connection.execute(
                "INSERT INTO notices (id, failure_id, kind, body, url, receiver, given_up_at) "
                "SELECT gen_random_uuid(), id, %s, '', NULL, %s, now() FROM terminal_failures",
                (kind, receiver),
            )
        yield connection


@pytest.mark.parametrize("block", [block for block in SHELL if runs_here(block)], ids=str)
def test_a_block_for_a_shell_runs_as_it_is_printed(
    block: Block, platform: psycopg.Connection, database_url: str, tmp_path: Path
) -> None:
    (tmp_path / ".venv").symlink_to(Path(sys.prefix))
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-c", strict(block.text, database_url)],
        cwd=tmp_path,
        env={
            "PATH": f"{Path(sys.executable).parent}:{os.defpath}",
            "HOME": str(tmp_path),
            "PROVISION_DATABASE_URL": database_url,
        },
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout


def strict(text: str, database_url: str) -> str:
    """The block with this database's address, ended by the first command that does not do it."""
    printed = re.sub(r"postgresql://user:\S+", f"'{database_url}'", text)
    return f"set -o errexit -o nounset -o pipefail\n{printed}"


@pytest.mark.parametrize("block", [block for block in SHELL if not runs_here(block)], ids=str)
def test_a_command_that_needs_more_than_a_machine_is_one_that_its_program_knows(
    block: Block,
) -> None:
    for words in commands(block):
        assert known(words), words


def known(words: list[str]) -> bool:
    program, *rest = words
    if program == "prefect":
        return known_to_prefect([word for word in rest if word != "--no-prompt"])
    if program == "make":
        return re.search(rf"^{rest[0]}:", (ROOT / "Makefile").read_text(), re.M) is not None
    if program == "python" and rest[0] == "-m":
        return importlib.util.find_spec(rest[1]) is not None
    if program.startswith(".venv/bin/"):
        return (
            shutil.which(program.removeprefix(".venv/bin/"), path=f"{sys.prefix}/bin") is not None
        )
    return program in HERE | ELSEWHERE | {"export"}


def known_to_prefect(words: list[str]) -> bool:
    from cyclopts.exceptions import CycloptsError
    from prefect.cli import _app as cli

    try:
        cli._app.parse_args(words, print_error=False, exit_on_error=False)
    except CycloptsError:
        return False
    return True


def test_a_command_that_no_program_knows_is_seen() -> None:
    assert not known(["prefect", "deploymint", "run"])
    assert not known(["prefect", "work-pool", "create", "x", "--no-such-option", "y"])
    assert not known(["make", "coffee"])
    assert not known(["python", "-m", "deployments.coffee"])


@pytest.mark.parametrize("block", blocks("sql"), ids=str)
def test_sql_runs_on_a_migrated_database(block: Block, platform: psycopg.Connection) -> None:
    """Each block in a transaction that is rolled back; what stands for a value gets one."""
    text = re.sub(r"(?<!:):(site_id|attempt|\w*id)\b", "NULL", block.text).replace(
        "'…'", "gen_random_uuid()"
    )
    for role in re.findall(r"CREATE ROLE (\w+)", text):
        platform.execute(f"DROP ROLE IF EXISTS {role}")
    with platform.transaction(force_rollback=True):
        assert platform.execute(text)


def test_sql_for_one_site_mends_it(platform: psycopg.Connection) -> None:
    for block in blocks("sql"):
        if f"id = {SITE}" in block.text and "#>> '{}'" not in block.text:
            assert platform.execute(block.text).rowcount == 1, block


def test_sql_in_batches_comes_to_an_end(platform: psycopg.Connection) -> None:
    platform.execute(
        "UPDATE sites SET metadata = "
        """jsonb_set(metadata, '{provision,started_at}', '"2020-01-01 00:00"')"""
    )
    (batch,) = (block.text for block in blocks("sql") if "LIMIT" in block.text)
    assert [platform.execute(batch).rowcount for _ in range(2)] == [1, 0]


@pytest.mark.parametrize("block", blocks("json"), ids=str)
def test_json_is_json(block: Block) -> None:
    json.loads(block.text.replace("…", ""))


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_python_compiles(block: Block) -> None:
    compile(block.text, str(block), "exec")


def test_the_role_of_the_readme_can_run_the_operators_commands(
    platform: psycopg.Connection, database_url: str
) -> None:
    """All but `migrate`, which is the owner's."""
    platform.execute("DROP ROLE IF EXISTS reaper")
    for statement in rights_of_the_readme():
        platform.execute(statement)
    url = database_url.replace("//postgres@", "//reaper@")
    for words in (["doctor"], ["look"], ["site", str(SITE)], ["notices", "list"], ["prune"]):
        done = subprocess.run(
            [str(Path(sys.executable).parent / "provision-reaper"), *words],
            env={"PATH": os.defpath, "PROVISION_DATABASE_URL": url},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    platform.execute("DROP OWNED BY reaper")
