"""A failover that lost the last commits, and a restore: each receiver is told under the same id."""

import json

import psycopg
import pytest

from deployments.postgres import LocalPostgres
from provisioning.database import database
from tests.outbox.owing import Owing, config
from tests.outbox.receivers import Receiver
from tests.sites import Sites

FIRST = 3_000_000_001


@pytest.mark.guarantee(
    fault="a copy of the database without the last commits takes over (G18)",
    holds="the same failure owes the same notices, under the same webhook-id and failure_id",
    guard="with random ids, each receiver gets two notices that it can't tell to be one",
)
async def test_g18_what_was_lost_and_is_recorded_again_has_the_same_ids(
    owing: Owing,
    receiver: Receiver,
    platform: Receiver,
    postgres: LocalPostgres,
) -> None:
    owing.config = config(teardown_url=platform.url())
    ((name,),) = await owing.sites.rows("SELECT current_database()")
    behind = f"{name}_behind"
    await owing.engine.dispose()
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {behind} TEMPLATE {name} STRATEGY file_copy")
    for n in range(3):
        await owing.fail(FIRST + n, receiver.url(), teardown=True)
    await owing.sweep()
    async with database(postgres.url(behind)) as promoted:
        after = Owing(promoted, Sites(promoted), owing.config)
        for n in range(3):
            await after.fail(FIRST + n, receiver.url(), teardown=True)
        assert len((await after.sweep()).delivered) == 6
    for requests in (receiver.requests, platform.requests):
        assert len(requests) == 6
        assert len({request.notice_id for request in requests}) == 3
    assert len({request.notice_id for request in receiver.requests + platform.requests}) == 6
    failures = {json.loads(request.body)["data"]["failure_id"] for request in platform.requests}
    assert len(failures) == 3
    assert {request.notice_id[14] for request in receiver.requests} == {"5"}, "uuid5"
