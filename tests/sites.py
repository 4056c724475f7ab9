"""The platform's side of the tests: its table of sites, and what it does to it."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from provisioning import schema
from provisioning.schema import SiteId, sql_name
from tests import second_table

OLD = timedelta(minutes=90)
YOUNG = timedelta(minutes=1)


FIRST = 3_000_000_000
"""The tests know sites by small numbers. Their ids lie this far above, beyond 32 bits."""

UUIDS = second_table.chosen()

SITES = sql_name(schema.sites)
"""The platform's table, as SQL writes it."""

ID = sql_name(schema.sites.c.id.name)

PLATFORM_TABLE = "CREATE TABLE sites (id bigint PRIMARY KEY, domain text, metadata jsonb)"
"""The platform's own migration: ours never makes its table."""


def site(number: int) -> SiteId:
    """The id of the site that the tests know by a number; an id stays what it is."""
    beyond = number if number >= FIRST else FIRST + number
    return UUID(int=UUID_BASE + beyond) if UUIDS else beyond


UUID_BASE = UUID("5eed0000-0000-4000-8000-000000000000").int

ID_OF_I = (
    f"CAST('5eed0000-0000-4000-8000-' || lpad(to_hex({FIRST} + i), 12, '0') AS uuid)"
    if UUIDS
    else f"{FIRST} + i"
)
"""The id of the site of number `i`, in SQL."""


def stamp(age: timedelta = OLD) -> str:
    """A start stamp of that age, as most platforms write one."""
    return (datetime.now(UTC) - age).strftime("%Y-%m-%dT%H:%M:%SZ")


def number(site_id: object) -> int:
    """The number by which the tests know a site."""
    text = str(site_id)
    return (UUID(text).int - UUID_BASE if UUIDS else int(text)) - FIRST


def as_json(site_id: SiteId) -> int | str:
    """An id in a document: a number stays one."""
    return site_id if isinstance(site_id, int) else str(site_id)


@dataclass
class Sites:
    """Writes as the platform would, in plain SQL; reads back what is there.

    Names a site as the test did: by its number, or by its id.
    """

    engine: AsyncEngine
    told: dict[str, int] = field(default_factory=dict)

    def id(self, site_id: int) -> SiteId:
        """The id of a site, and the name under which the test knows it."""
        real = site(site_id)
        self.told[str(real)] = site_id
        return real

    def name(self, site_id: object) -> int:
        """The site as the test named it."""
        return self.told[str(site_id)] if str(site_id) in self.told else number(site_id)

    async def add(self, site_id: int, metadata: Any, domain: str | None = None) -> None:
        """One site, with the metadata as given."""
        await self.run(
            "INSERT INTO sites VALUES (:id, :domain, CAST(:metadata AS jsonb))",
            id=self.id(site_id),
            domain=domain or f"shop-{site_id}.example",
            metadata=json.dumps(metadata),
        )

    async def add_started(self, site_id: int, started: Any = None, **more: Any) -> str:
        """One site in flight, by default for 90 minutes. Returns its start stamp."""
        started = stamp() if started is None else started
        provision = {"started_at": started, **more.pop("provision", {})}
        await self.add(site_id, {"provision": provision, **more})
        return str(started)

    async def add_many(self, number: int, first: int = 1, step: str = "dns") -> None:
        """That many sites, stuck at the same step, each a second younger than the one before."""
        places = range(first, first + number)
        await self.run(
            f"""
            INSERT INTO sites
            SELECT CAST(id AS {"uuid" if UUIDS else "bigint"}), 'shop-' || n || '.example',
                jsonb_build_object('provision',
                jsonb_build_object('step', CAST(:step AS text), 'started_at',
                    to_char(now() AT TIME ZONE 'UTC' - interval '2 hours'
                            + n % {FIRST} * interval '100 ms', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')))
              FROM unnest(CAST(:ids AS text[]), CAST(:places AS bigint[])) AS new (id, n)
            """,
            ids=[str(self.id(place)) for place in places],
            places=list(places),
            step=step,
        )

    async def merge(self, site_id: int, document: Any) -> None:
        """Merge a document into the metadata, as a chain that stamps does."""
        await self.run(
            "UPDATE sites SET metadata = metadata || CAST(:document AS jsonb) WHERE id = :id",
            id=self.id(site_id),
            document=json.dumps(document),
        )

    async def metadata(self, site_id: int) -> Any:
        """The metadata of one site as it is committed."""
        return (await self.rows("SELECT metadata FROM sites WHERE id = :id", id=self.id(site_id)))[
            0
        ][0]

    async def failed(self) -> list[int]:
        """The ids of the sites that carry the mark."""
        found = await self.rows(
            "SELECT id FROM sites WHERE metadata ->> 'terminal_failure' IS NOT NULL"
        )
        return sorted(self.name(row[0]) for row in found)

    async def ledger(self) -> list[int]:
        """The site of each row of the ledger."""
        found = await self.rows("SELECT site_id FROM terminal_failures")
        return sorted(self.name(row[0]) for row in found)

    async def notices(self) -> list[tuple[str, str | None]]:
        """The kind and the URL of each notice."""
        return [tuple(row) for row in await self.rows("SELECT kind, url FROM notices ORDER BY id")]

    async def database(self) -> str:
        """The name of the database."""
        return str((await self.rows("SELECT current_database()"))[0][0])

    async def wait_for_a_lock(self) -> None:
        """Return once a session waits for a row that another one holds."""
        for _ in range(1_000):
            if await self.rows(
                "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
                "AND datname = current_database()"
            ):
                return
            await asyncio.sleep(0.005)
        raise AssertionError("nobody waited for the row")

    async def rows(self, statement: str, **values: Any) -> list[Any]:
        """The rows of a query."""
        async with self.engine.connect() as connection:
            await self._know_the_usual_names(connection)
            return list((await connection.execute(text(statement), values)).all())

    async def run(self, statement: str, **values: Any) -> None:
        """One statement in a transaction of its own."""
        async with self.holding(statement, **values):
            pass

    @asynccontextmanager
    async def holding(self, statement: str, **values: Any) -> AsyncIterator[None]:
        """One statement in a transaction that is committed at the end of the `async with` block."""
        async with self.engine.begin() as transaction:
            await self._know_the_usual_names(transaction)
            await transaction.execute(text(statement), values)
            yield

    async def _know_the_usual_names(self, connection: AsyncConnection) -> None:
        if UUIDS:
            await connection.execute(text(f"SET LOCAL search_path TO {second_table.SEARCH_PATH}"))
