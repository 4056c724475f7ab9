"""Run as a process: for each line that it reads, adds stuck sites to the table that its environment
names, reaps them one by one, and prints the seconds that this took."""

import asyncio
import sys
import time
from datetime import UTC, datetime, timedelta
from uuid import UUID

from sqlalchemy import insert
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.database import database
from provisioning.failures import Source, fail_terminally, times_marked_again
from provisioning.schema import SiteId, sites
from provisioning.settings import settings
from provisioning.site_state import Outcome
from provisioning.sweep.snapshot import Candidate, look_again

ATTEMPT = "2026-01-15T14:00:00Z"
STUCK = {"provision": {"started_at": ATTEMPT, "webhook": "https://merchant.example/"}}


async def main(number: int, first: int) -> None:
    """Answer each line with one round of that many sites, whose ids begin at `first`."""
    config = settings()
    url = config.database_url.get_secret_value()
    async with database(url, pooled=config.database_pooled) as engine:
        for _ in sys.stdin:
            ids = await add_stuck(engine, range(first, first + number))
            first += number
            began = time.perf_counter()
            for site_id in ids:
                await reap(engine, site_id)
            print(time.perf_counter() - began, flush=True)


async def add_stuck(engine: AsyncEngine, numbers: range) -> list[SiteId]:
    """Sites that are stuck, by whatever names and ids the table has."""
    uuids = sites.name != "sites"
    ids: list[SiteId] = [UUID(int=number) if uuids else number for number in numbers]
    async with engine.begin() as transaction:
        rows = [{"id": str(each), "domain": "stuck.example", "metadata": STUCK} for each in ids]
        await transaction.execute(insert(sites), rows)
    return ids


async def reap(engine: AsyncEngine, site_id: SiteId) -> None:
    """What a sweep asks of the database for one site."""
    site = Candidate(site_id, "", ATTEMPT, datetime.now(UTC), "")
    assert await look_again(engine, site) is None
    outcome = await fail_terminally(
        engine,
        site_id,
        ATTEMPT,
        reason="watchdog: exceeded the 30-minute threshold without completing",
        source=Source.WATCHDOG,
        started_before=datetime.now(UTC) - timedelta(minutes=30),
        teardown=True,
    )
    assert outcome is Outcome.REAPED
    assert await times_marked_again(engine, site_id, ATTEMPT) == 0


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:])))
