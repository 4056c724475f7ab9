"""No secret reaches what Prefect keeps: its whole database is searched after the runs."""

import asyncio
import base64

import psycopg
import pytest
from psycopg import sql

from deployments.postgres import LocalPostgres
from provisioning.settings import settings
from tests.flow.conftest import Sweep
from tests.flow.traces import message, run_id
from tests.outbox.receivers import answering, receiving
from tests.sites import Sites

PASSWORD, TOKEN, SIGNING = "db-pa55word", "t0ken-0f-a-merchant", "s1gning-s3cret-0f-ours"


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
