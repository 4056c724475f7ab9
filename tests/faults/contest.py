"""Many hands on one table of sites: reapers, chains, blind writers and re-starters, in parallel.

Each hand has a real connection of its own, so whatever the order is, the database decided it. The
chain's and the platform's hands use plain SQL, as a platform in another language would.
"""

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any
from uuid import uuid4

import psycopg
from psycopg.types.json import Jsonb
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.database import database
from provisioning.failures import Source, fail_terminally
from provisioning.site_state import Outcome

SITES = 400
AT_ONCE = 6
"""Sites that are fought over at one moment; each by up to four hands."""

BLIND = 5
"""Every fifth site is also written by a platform that saves whole documents, read before."""

Attempt = tuple[int, str]

START = """
INSERT INTO sites
SELECT id, 'shop.example', jsonb_build_object('provision', jsonb_build_object(
    'started_at', stamp, 'webhook', 'https://merchant.example/' || id))
  FROM unnest(%s::bigint[], %s::text[]) AS new (id, stamp)
ON CONFLICT (id) DO UPDATE SET metadata = excluded.metadata
"""
RESTART = """
UPDATE sites SET metadata = metadata - '{terminal_failure,health_check}'::text[] || %s WHERE id = %s
"""
IN_FLIGHT = """metadata #>> '{provision,started_at}' = %s
   AND metadata #>> '{terminal_failure}' IS NULL
   AND metadata #>> '{health_check,completed_at}' IS NULL"""
COMPLETE = f"""
UPDATE sites SET metadata = metadata || '{{"health_check": {{"completed_at": "2026"}}}}'
 WHERE id = %s AND {IN_FLIGHT} RETURNING id
"""
STANDING = """
SELECT id, metadata #>> '{provision,started_at}' AS attempt,
       metadata #>> '{terminal_failure}' IS NOT NULL AS failed,
       metadata #>> '{health_check,completed_at}' IS NOT NULL AS completed
  FROM sites
"""


@dataclass
class Contest:
    """What every hand did, and what it was told that it did."""

    engines: list[AsyncEngine]
    connections: "asyncio.Queue[psycopg.AsyncConnection[Any]]"
    chance: random.Random
    started: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    reaped: Counter[Attempt] = field(default_factory=Counter)
    completed: Counter[Attempt] = field(default_factory=Counter)
    kept: dict[int, list[Any]] = field(default_factory=lambda: defaultdict(list))
    stood: set[Attempt] = field(default_factory=set)
    """Those that no restart took the place of."""
    told: Counter[str] = field(default_factory=Counter)
    seconds: float = 0

    @property
    def attempts(self) -> int:
        return sum(len(stamps) for stamps in self.started.values())

    async def run(self, attempts: int) -> None:
        """Rounds of fresh attempts, until there were that many; checked after each round."""
        began = monotonic()
        while self.attempts < attempts:
            await self.round()
            await self.check_the_table()
        await self.check_the_ledger()
        self.seconds = monotonic() - began

    async def round(self) -> None:
        """A fresh attempt for each site, and hands that fight over it."""
        stamps = [self.new_attempt(site_id) for site_id in range(1, SITES + 1)]
        await self.sql(START, list(range(1, SITES + 1)), stamps)
        turns = asyncio.Semaphore(AT_ONCE)

        async def fight(site_id: int, attempt: str) -> None:
            async with turns:
                await asyncio.gather(*self.hands(site_id, attempt))

        await asyncio.gather(*(fight(site_id, stamps[site_id - 1]) for site_id in self.shuffled()))
        for row in await self.sql(STANDING):  # the sweep after it finishes what was left
            if not (row[2] or row[3]):
                assert await self.reap(row[0], row[1]) is Outcome.REAPED

    def shuffled(self) -> list[int]:
        return self.chance.sample(range(1, SITES + 1), SITES)

    def new_attempt(self, site_id: int) -> str:
        """A stamp that no other attempt of any site has."""
        instant = datetime(2025, 1, 15, 14) + timedelta(microseconds=self.attempts)
        stamp = f"{instant.isoformat(timespec='microseconds')}Z"
        self.started[site_id].append(stamp)
        return stamp

    def hands(self, site_id: int, attempt: str) -> list[Awaitable[Any]]:
        """A reaper and some of the others, in any order."""
        others: list[Awaitable[Any]] = []
        for kind in self.chance.choices(
            ["reaper", "completes", "fails", "restarts"], [4, 6, 2, 1], k=self.chance.choice([1, 2])
        ):
            match kind:
                case "reaper":
                    others.append(self.reap(site_id, attempt))
                case "completes":
                    others.append(self.complete(site_id, attempt))
                case "fails":
                    others.append(self.reap(site_id, attempt, Source.CHAIN))
                case "restarts":
                    others.append(self.restart(site_id))
        if site_id % BLIND == 0:
            others.append(self.save_blindly(site_id))
        return self.chance.sample([self.reap(site_id, attempt), *others], len(others) + 1)

    async def reap(self, site_id: int, attempt: str, source: Source = Source.WATCHDOG) -> Outcome:
        """The sweep, or the chain's own handler."""
        outcome = await fail_terminally(
            self.chance.choice(self.engines),
            site_id,
            attempt,
            reason=f"{source}: late",
            source=source,
            flow_run_id=uuid4(),
            started_before=datetime.now(UTC) if source is Source.WATCHDOG else None,
            teardown=True,
        )
        self.reaped[site_id, attempt] += outcome is Outcome.REAPED
        self.told[f"{source} {outcome}"] += 1
        return outcome

    async def complete(self, site_id: int, attempt: str) -> None:
        """The chain at its end."""
        done = await self.sql(COMPLETE, site_id, attempt)
        self.completed[site_id, attempt] += len(done)
        self.told["chain completed" if done else "chain came too late to complete"] += 1

    async def restart(self, site_id: int) -> None:
        """Somebody starts the site's next attempt, and its sweep comes at once."""
        attempt = self.new_attempt(site_id)
        new = {"provision": {"started_at": attempt, "webhook": "https://merchant.example/again"}}
        await self.sql(RESTART, Jsonb(new), site_id)
        self.told["restarted"] += 1
        await self.reap(site_id, attempt)

    async def save_blindly(self, site_id: int) -> None:
        """A platform that saves a whole document, as it was a moment or some rounds ago."""
        ((document,),) = await self.sql("SELECT metadata FROM sites WHERE id = %s", site_id)
        self.kept[site_id].append(document)
        await asyncio.sleep(self.chance.uniform(0, 0.01))
        stale = self.chance.choice([document, self.chance.choice(self.kept[site_id])])
        await self.sql("UPDATE sites SET metadata = %s WHERE id = %s", Jsonb(stale), site_id)
        self.told["saved a stale document"] += 1

    async def check_the_table(self) -> None:
        """Each site ended one way; without a blind writer, the way that its hands were told."""
        for site_id, attempt, failed, completed in await self.sql(STANDING):
            assert failed != completed, f"site {site_id} is completed and failed, or neither"
            if site_id % BLIND:
                self.stood.add((site_id, attempt))
                outcomes = (self.reaped[site_id, attempt], self.completed[site_id, attempt])
                assert outcomes == (failed, completed), f"site {site_id}: {outcomes}"

    async def check_the_ledger(self) -> None:
        """One outcome an attempt; one ledger row and one notice of each kind a failed attempt."""
        ledger = await self.sql(
            "SELECT f.site_id, f.attempt, count(DISTINCT f.id) AS rows, "
            "       count(*) FILTER (WHERE kind = 'webhook') AS webhooks,"
            "       count(*) FILTER (WHERE kind = 'teardown') AS teardowns"
            "  FROM terminal_failures f LEFT JOIN notices n ON n.failure_id = f.id GROUP BY 1, 2"
        )
        assert {row[2:] for row in ledger} == {(1, 1, 1)}, "a second row, or a second notice"
        failed = {(int(row[0]), row[1]) for row in ledger}
        assert failed == set(+self.reaped), "the ledger holds what the hands were told, no more"
        for site_id, stamps in self.started.items():
            if site_id % BLIND:
                for one in ((site_id, stamp) for stamp in stamps):
                    ends = self.reaped[one] + self.completed[one]
                    assert ends == 1 or (ends == 0 and one not in self.stood), one

    async def sql(self, statement: str, *values: Any) -> list[Any]:
        """One statement, on whichever connection is free."""
        connection = await self.connections.get()
        try:
            cursor = await connection.execute(statement.encode(), values or None)
            return await cursor.fetchall() if cursor.description else []
        finally:
            self.connections.put_nowait(connection)

    def __str__(self) -> str:
        lines = [
            f"{self.attempts:,} attempts of {SITES} sites in {self.seconds:.0f} s: each ended once",
            *(f"  {number:>9,} {what}" for what, number in sorted(self.told.items())),
        ]
        return "\n".join(lines)


@asynccontextmanager
async def contest(url: str, seed: int) -> AsyncIterator[Contest]:
    """A contest on a migrated database without sites."""
    async with AsyncExitStack() as running:
        engines = [await running.enter_async_context(database(url)) for _ in range(2)]
        connections: asyncio.Queue[psycopg.AsyncConnection[Any]] = asyncio.Queue()
        for _ in range(AT_ONCE):
            connection = await psycopg.AsyncConnection.connect(url, autocommit=True)
            connections.put_nowait(await running.enter_async_context(connection))
        yield Contest(engines, connections, random.Random(seed))
