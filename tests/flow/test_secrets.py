"""No secret reaches what Prefect keeps: its whole database is searched after the runs."""

import asyncio
import base64

import psycopg
import pytest
from psycopg import sql

from deployments.postgres import LocalPostgres
from provisioning.settings import settings
from tests.chain.conftest import Provision
from tests.flow.conftest import Sweep
from tests.flow.traces import message, run_id
from tests.outbox.receivers import answering, receiving
from tests.sites import Sites

PASSWORD, TOKEN, SIGNING = "db-pa55word", "t0ken-0f-a-merchant", "s1gning-s3cret-0f-ours-al0ne"


@pytest.mark.guarantee(
    fault="secrets in URLs and settings",
    holds="none in any table of Prefect's database",
)
async def test_no_secret_reaches_a_log_a_state_an_artifact_an_event_or_a_parameter(
    sweep: Sweep,
    sites: Sites,
    database_url: str,
    postgres: LocalPostgres,
    worker_environment: pytest.MonkeyPatch,
) -> None:
    whsec = "whsec_" + base64.b64encode(SIGNING.encode()).decode()
    worker_environment.setenv(
        "PROVISION_DATABASE_URL", database_url.replace("postgres@", f"postgres:{PASSWORD}@")
    )
    worker_environment.setenv("PROVISION_WEBHOOK_SECRET", whsec)
    worker_environment.setenv("PROVISION_WEBHOOK_ALLOW_PRIVATE_NETWORKS", "true")
    async with receiving() as receiver:
        receiver.default = answering(500)
        worker_environment.setenv("PROVISION_TEARDOWN_URL", receiver.url(f"/{TOKEN}"))
        settings.cache_clear()
        for site_id, webhook in enumerate(
            [
                receiver.url(f"/hook?token={TOKEN}"),
                f"http://user:{TOKEN}@127.0.0.1:{receiver.port}/{TOKEN}",
                f"http://127.0.0.1:1/{TOKEN}",
                f"gopher://127.0.0.1/{TOKEN}",
                f"http://[{TOKEN}/",
                f"https://127.0.0.1:{receiver.port}/{TOKEN}",
            ]
        ):
            await sites.add_started(site_id, provision={"webhook": webhook})
        sent = await sweep()
        await sites.add_many(26, first=100)
        refused = await sweep()
        await sites.run("DROP TABLE notices")
        failed = await sweep()
    assert [sent.name, refused.name, failed.name] == ["Incomplete", "Refused", "Failed"]
    assert "still owed" in message(sent)
    assert await kept_by_prefect(postgres, str(run_id(failed)))
    for secret in (PASSWORD, TOKEN, SIGNING, whsec, whsec.removeprefix("whsec_")):
        assert search(postgres, secret) == [], secret


@pytest.mark.guarantee(
    fault="constraints and triggers that print the row; a bare @ in the password (G08)",
    holds="no value of the row and no part of the password in any table of Prefect's database",
)
async def test_what_the_database_says_of_a_row_reaches_nothing_that_prefect_keeps(
    sweep: Sweep,
    provision: Provision,
    sites: Sites,
    database_url: str,
    postgres: LocalPostgres,
    upstream_environment: pytest.MonkeyPatch,
) -> None:
    webhook = f"https://user:{TOKEN}@merchant.example/{TOKEN}"
    await sites.run("ALTER TABLE sites ADD COLUMN api_key text")
    ended = []
    for number, (guard, takes_back) in enumerate(GUARDS):
        site_id = 3_000_000_001 + number
        await sites.add_started(site_id, provision={"webhook": webhook})
        await sites.run(f"UPDATE sites SET api_key = '{ROW}' || id")
        for statement in guard:
            await sites.run(statement)
        ended.append(await sweep())
        await sites.run(takes_back)
        await sites.run(f"DELETE FROM sites WHERE id = {site_id}")
    await sites.add(3_000_000_101, {"provision": {"webhook": webhook}})
    await sites.run(f"UPDATE sites SET api_key = '{ROW}'")
    await sites.run(
        "ALTER TABLE sites ADD CONSTRAINT never_done"
        " CHECK (metadata #>> '{health_check,completed_at}' IS NULL)"
    )
    live = await provision(3_000_000_101)
    upstream_environment.setenv(
        "PROVISION_DATABASE_URL", database_url.replace("postgres@", f"postgres:x@{PASSWORD}@")
    )
    settings.cache_clear()
    ended.append(await sweep())
    assert [state.name for state in ended] == ["Incomplete"] * len(GUARDS) + ["Failed"]
    assert live.name == "Failed"
    assert "constraint never_done" in message(live)
    assert "must be percent-encoded" in message(ended[-1])
    assert await kept_by_prefect(postgres, str(run_id(ended[0])))
    for secret in (ROW, TOKEN, PASSWORD):
        assert search(postgres, secret) == [], secret
    assert ROW not in str(await sites.rows("SELECT * FROM terminal_failures"))
    assert ROW not in str(await sites.rows("SELECT body FROM notices"))


ROW = "s3cret-of-a-r0w"

_TRIGGER = (
    "CREATE FUNCTION guard() RETURNS trigger LANGUAGE plpgsql AS"
    " $$ BEGIN RAISE EXCEPTION 'row %', NEW USING DETAIL = NEW, HINT = NEW; END $$",
    "CREATE TRIGGER guard BEFORE UPDATE ON sites FOR EACH ROW EXECUTE FUNCTION guard()",
)
GUARDS = [
    (
        ["ALTER TABLE sites ADD CONSTRAINT no_mark CHECK (NOT metadata ? 'terminal_failure')"],
        "ALTER TABLE sites DROP CONSTRAINT no_mark",
    ),
    (_TRIGGER, "DROP FUNCTION guard CASCADE"),
    (
        [
            "INSERT INTO sites (id, metadata, api_key) VALUES"
            f' (3000000099, \'{{"terminal_failure"\\: {{"reason"\\: "{ROW}"}}}}\', \'{ROW}\')',
            "CREATE UNIQUE INDEX one_mark ON sites ((metadata ? 'terminal_failure'), (left(api_key,"
            f" {len(ROW)}))) WHERE metadata ? 'terminal_failure'",
        ],
        "DROP INDEX one_mark",
    ),
]
"""What a platform keeps on its table, and how it is taken away again."""


async def kept_by_prefect(postgres: LocalPostgres, text: str) -> bool:
    """Wait until the server has stored the logs and events of a run."""
    for _ in range(200):
        if {"log", "events"} <= set(search(postgres, text)):
            return True
        await asyncio.sleep(0.1)
    return False


def search(postgres: LocalPostgres, text: str) -> list[str]:
    """The tables of Prefect's database in which a text stands anywhere."""
    with psycopg.connect(postgres.url("prefect")) as connection:
        tables = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
        ).fetchall()
        return [
            name
            for (name,) in tables
            if connection.execute(
                sql.SQL("SELECT 1 FROM {0} WHERE {0}::text LIKE %s LIMIT 1").format(
                    sql.Identifier(name)
                ),
                [f"%{text}%"],
            ).fetchone()
        ]
