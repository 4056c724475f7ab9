"""What a sweep asks of the database, held by the figures of docs/benchmarks.md."""

import asyncio
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from prefect.client.schemas.objects import State

from deployments.postgres import LocalPostgres
from flows.reap_stuck_provisions import reap_stuck_provisions
from provisioning.settings import settings
from tests.benchmarks.counted import (
    FIRST,
    MOST,
    STUCK,
    Count,
    count,
    counting,
    counting_postgres,
    on_the_page,
)
from tests.benchmarks.data import add_stuck
from tests.outbox.receivers import receiving


@pytest.fixture(scope="module")
def counting_server() -> Iterator[LocalPostgres]:
    """A server that counts."""
    with counting_postgres() as server:
        yield server


@pytest.fixture(scope="module")
def counts(counting_server: LocalPostgres) -> list[Count]:
    """What each situation costs by now."""
    return asyncio.run(count(counting_server))


@pytest.mark.long
@pytest.mark.guarantee(
    fault="a statement more for each site, or a query that lost its index",
    holds="at most 1.1 times the statements and 1.3 times the blocks of docs/benchmarks.md",
    guard=(
        "with one read more for each site, or for each notice, 175 statements and not 150; with a "
        "claim that finds its notice by a text, 31,566 blocks and not 17,217"
    ),
)
def test_no_situation_asks_more_of_the_database_than_the_page_says(counts: list[Count]) -> None:
    now = {(each.name, unit): getattr(each, unit) for each in counts for unit in MOST}
    kept = on_the_page()
    assert now.keys() == kept.keys()
    grown = [
        f"{name}: {now[name, unit]:,} {unit}, and {kept[name, unit]:,} on the page"
        for name, unit in now
        if now[name, unit] > kept[name, unit] * MOST[unit]
    ]
    assert not grown


@pytest.mark.long
@pytest.mark.e2e
async def test_what_is_counted_is_what_a_real_sweep_asks(
    counts: list[Count],
    counting_server: LocalPostgres,
    prefect_api: str,
    worker_environment: pytest.MonkeyPatch,
) -> None:
    url = counting_server.url("counted")
    worker_environment.setenv("PROVISION_DATABASE_URL", url)
    worker_environment.setenv("PROVISION_WEBHOOK_ALLOW_PRIVATE_NETWORKS", "true")
    settings.cache_clear()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DELETE FROM sweep_refusals")
    async with receiving() as merchant:
        add_stuck(url, FIRST + 30_000, STUCK, merchant.url())
        async with counting(url, "a real sweep") as real:
            state: State[Any] = await reap_stuck_provisions(return_state=True)
    assert state.name == "Reaped", state.message
    assert len(merchant.requests) == STUCK
    assert real.statements == counts[0].statements
