"""The stamps of a chain, as functions that any chain can call: the first line of defence.

An attempt is one run of the chain for a site, named by its start stamp, verbatim. Each function is
one conditional UPDATE by the database's clock, merged in SQL: the platform's other keys stay, and
of two that compete for a site the database lets one through.
"""

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Text, bindparam, not_, select, update
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.chain.documents import (
    PROGRESS,
    RUN_ID,
    STAMPABLE,
    begun,
    completed,
    stamped,
    still,
)
from provisioning.database import Connection, autocommit
from provisioning.errors import (
    AlreadyInFlight,
    DatabaseError,
    NotInFlight,
    UnknownSite,
    Unstampable,
)
from provisioning.failures import Source, fail_terminally
from provisioning.outbox.notices import Told
from provisioning.schema import SiteId, row_of, sites
from provisioning.site_state import Outcome, moved_on, read_stamps, row_at
from provisioning.stamps import IN_FLIGHT, STARTED
from provisioning.text import one_line, storable

FAIL_AGAIN_AFTER = (0.5, 1.0, 2.0, 4.0)
"""Seconds before each further try to fail an attempt whose row is held, or whose database is away.
After the last of them the attempt stays in flight, and is the sweep's."""


@dataclass(frozen=True)
class Progress:
    """What the row says of an attempt that is in flight."""

    domain: str
    upstream_id: str | None
    """The upstream's own id of the site; None before it was asked for one."""
    age: timedelta
    """Since the start stamp, by the database's clock."""


async def begin(engine: AsyncEngine, site_id: SiteId, *, run_id: str | None = None) -> str:
    """Begin a new attempt: stamp the start and clear what an earlier attempt left.

    Args:
        run_id: the caller's own name for this run, such as the id of its job. A run that begins
            again while its attempt is still in flight goes on with that attempt, which makes a
            lost answer and a restarted job harmless.

    Returns:
        The attempt.

    Raises:
        UnknownSite: there is no such site.
        AlreadyInFlight: an attempt of another run is under way.
        Unstampable: the metadata is in the way of the stamps.
        DatabaseError: the database did not do it, or somebody holds the row.
    """
    async with autocommit(engine) as connection:
        began = await row_at(
            connection,
            site_id,
            update(sites)
            .where(row_of(site_id), not_(IN_FLIGHT), STAMPABLE)
            .values(metadata=begun(run_id))
            .returning(STARTED),
        )
        return began[0] if began else await _resumed(connection, site_id, run_id)


async def step(engine: AsyncEngine, site_id: SiteId, attempt: str, name: str) -> Progress:
    """Enter a step, if the attempt is still in flight: stamp its name for whoever looks later.

    Raises:
        NotInFlight: it is not, and the chain must stop.
        DatabaseError: as in `begin`.
    """
    return await _stamp(engine, site_id, attempt, {"step": storable(name, 100)})


async def remember_upstream(
    engine: AsyncEngine, site_id: SiteId, attempt: str, upstream_id: str
) -> Progress:
    """Keep the upstream's id of the site, so that a run that is tried again finds it.

    Raises:
        NotInFlight, DatabaseError: as in `step`.
    """
    return await _stamp(engine, site_id, attempt, {"upstream_id": storable(upstream_id)})


async def progress(engine: AsyncEngine, site_id: SiteId, attempt: str) -> Progress:
    """See how the attempt stands, and write nothing.

    Raises:
        NotInFlight, DatabaseError: as in `step`.
    """
    async with autocommit(engine) as connection:
        row = await row_at(connection, site_id, select(*PROGRESS).where(still(site_id, attempt)))
        return _progress(row) if row else await _stop(connection, site_id, attempt)


async def age(engine: AsyncEngine, site_id: SiteId, attempt: str) -> timedelta:
    """How long ago the attempt started, for a wait that ends with the attempt.

    Raises:
        NotInFlight, DatabaseError: as in `step`.
    """
    return (await progress(engine, site_id, attempt)).age


async def complete(engine: AsyncEngine, site_id: SiteId, attempt: str) -> None:
    """Stamp the end, if the attempt is still in flight. A second time it changes nothing.

    Raises:
        NotInFlight, DatabaseError: as in `step`.
    """
    async with autocommit(engine) as connection:
        done = await row_at(
            connection,
            site_id,
            update(sites)
            .where(still(site_id, attempt))
            .values(metadata=completed())
            .returning(sites.c.id),
        )
        if done is None:
            outcome = moved_on(await read_stamps(connection, site_id), attempt)
            if outcome is not Outcome.FINISHED:
                raise NotInFlight(site_id, attempt, outcome or Outcome.BUSY)


async def fail(
    engine: AsyncEngine,
    site_id: SiteId,
    attempt: str,
    reason: str,
    *,
    teardown: bool,
    told: Told = Told.FAILED,
    flow_run_id: UUID | None = None,
) -> Outcome:
    """Fail the attempt through the one terminal-failure path, trying again for a few seconds.

    Args:
        reason: why, for operators. It stays in the ledger, as the detail of the failure.
        told: why, for everybody: in the mark and in the merchant's notice.

    Returns:
        As `fail_terminally`. Where it stays `BUSY`, the attempt is left to the sweep.

    Raises:
        DatabaseError: the database did not do it; the attempt is left to the sweep.
    """
    for pause in (*FAIL_AGAIN_AFTER, None):
        try:
            outcome = await fail_terminally(
                engine,
                site_id,
                attempt,
                reason=f"{Source.CHAIN}: {told}",
                detail=reason,
                told=told,
                source=Source.CHAIN,
                flow_run_id=flow_run_id,
                teardown=teardown,
            )
            if outcome is not Outcome.BUSY or pause is None:
                return outcome
        except DatabaseError as error:
            if pause is None or not error.transient:
                raise
        await asyncio.sleep(pause)
    raise AssertionError("unreachable: the last try returns or raises")


async def attempt_of(engine: AsyncEngine, site_id: SiteId, run_id: str) -> str | None:
    """The attempt that a run began and that is still in flight; None if there is none."""
    query = select(STARTED).where(
        row_of(site_id), IN_FLIGHT, RUN_ID == bindparam("run_id", run_id, type_=Text())
    )
    async with autocommit(engine) as connection:
        row = await row_at(connection, site_id, query)
        return row[0] if row else None


async def _stamp(
    engine: AsyncEngine, site_id: SiteId, attempt: str, values: dict[str, str]
) -> Progress:
    async with autocommit(engine) as connection:
        row = await row_at(
            connection,
            site_id,
            update(sites)
            .where(still(site_id, attempt))
            .values(metadata=stamped(values))
            .returning(*PROGRESS),
        )
        return _progress(row) if row else await _stop(connection, site_id, attempt)


async def _stop(connection: Connection, site_id: SiteId, attempt: str) -> Progress:
    outcome = moved_on(await read_stamps(connection, site_id), attempt)
    raise NotInFlight(site_id, attempt, outcome or Outcome.BUSY)


async def _resumed(connection: Connection, site_id: SiteId, run_id: str | None) -> str:
    """The attempt that this run began before; otherwise why none can begin."""
    row = await row_at(
        connection,
        site_id,
        select(
            STARTED.label("attempt"), RUN_ID.label("run_id"), STAMPABLE.label("stampable")
        ).where(row_of(site_id)),
    )
    if row is None:
        raise UnknownSite(f"there is no site {site_id}")
    if not row.stampable:
        raise Unstampable(
            f"the metadata of site {site_id}, or its `provision` or `health_check`, is not a JSON "
            "object: put it right before the site is provisioned"
        )
    attempt: str = row.attempt
    if run_id is None or row.run_id != run_id:
        raise AlreadyInFlight(
            f"the attempt of {one_line(attempt)} for site {site_id} is still in flight; it ends by "
            "itself, or by the sweep"
        )
    return attempt


def _progress(row: Any) -> Progress:
    return Progress(row.domain or "", row.upstream_id, row.age)
