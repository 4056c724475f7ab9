"""The stamps of a chain, as functions that any chain can call: the first line of defence.

An attempt is one run of the chain for a site, named by its start stamp, verbatim. Each function is
one conditional UPDATE by the database's clock, merged in SQL: the platform's other keys stay, and
of two that compete for a site the database lets one through.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, Text, bindparam, cast, not_, select, update
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.chain.documents import (
    PROGRESS,
    RUN_ID,
    STAMPABLE,
    begun,
    claimed,
    clock,
    nothing,
    stamped,
    still,
    text,
)
from provisioning.chain.upstream import Claim
from provisioning.database import Connection, autocommit
from provisioning.errors import AlreadyInFlight, NotInFlight, UnknownSite, Unstampable
from provisioning.schema import SiteId, row_of, sites
from provisioning.site_state import Outcome, moved_on, read_stamps, row_at
from provisioning.stamps import IN_FLIGHT, STARTED
from provisioning.text import one_line, storable


@dataclass(frozen=True)
class Progress:
    """What the row says of an attempt that is in flight."""

    site_id: str
    """As the database writes it."""
    domain: str
    claim: Claim | None
    """The site that this attempt or an earlier one of this row had made; None before that."""
    age: timedelta
    """Since the start stamp, by the database's clock."""


async def begin(
    engine: AsyncEngine,
    site_id: SiteId,
    *,
    run_id: str | None = None,
    limit: timedelta | None = None,
) -> str:
    """Begin a new attempt: stamp the start and clear what an earlier attempt left.

    What the upstream made for an earlier attempt of this row stays known, unless a teardown of it
    is owed or was sent.

    Args:
        run_id: the caller's own name for this run, such as the id of its job. A run that begins
            again while its attempt is still in flight goes on with that attempt, which makes a
            lost answer and a restarted job harmless.
        limit: how long the attempt may take. Stamped as its deadline, with a moment more, so that
            no sweep fails it before its own chain does.

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
            .values(metadata=begun(run_id, limit))
            .returning(STARTED),
        )
        return began[0] if began else await _resumed(connection, site_id, run_id)


async def known_as(engine: AsyncEngine, site_id: SiteId) -> str:
    """The id as the database writes it, which ids of failures and notices are derived from.

    A person may have typed it otherwise: a uuid in capital letters, a number with zeros before it.

    Raises:
        UnknownSite, DatabaseError: as in `begin`.
    """
    query = select(cast(sites.c.id, Text)).where(row_of(site_id))
    async with autocommit(engine) as connection:
        row = await row_at(connection, site_id, query)
    if row is None:
        raise _unknown(site_id)
    return str(row[0])


async def step(engine: AsyncEngine, site_id: SiteId, attempt: str, name: str) -> Progress:
    """Enter a step, if the attempt is still in flight: stamp its name for whoever looks later.

    Raises:
        NotInFlight: it is not, and the chain must stop.
        DatabaseError: as in `begin`.
    """
    return await _stamp(engine, site_id, attempt, step=text(storable(name, 100)), step_at=clock())


async def remember_upstream(
    engine: AsyncEngine, site_id: SiteId, attempt: str, upstream_id: str
) -> Progress:
    """Keep the upstream's id of the site, so that a run that is tried again finds it.

    Raises:
        NotInFlight, DatabaseError: as in `step`.
    """
    return await _stamp(engine, site_id, attempt, upstream_id=text(storable(upstream_id)))


async def claim_upstream(engine: AsyncEngine, claim: Claim, site_id: SiteId) -> Progress:
    """Say which site this attempt is about to have made, before the upstream is asked for it.

    Raises:
        NotInFlight, DatabaseError: as in `step`.
    """
    return await _stamp(
        engine, site_id, claim.attempt, upstream_by=claimed(claim), upstream_id=nothing()
    )


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


async def attempt_of(engine: AsyncEngine, site_id: SiteId, run_id: str) -> str | None:
    """The attempt that a run began and that is still in flight; None if there is none."""
    query = select(STARTED).where(
        row_of(site_id), IN_FLIGHT, RUN_ID == bindparam("run_id", run_id, type_=Text())
    )
    async with autocommit(engine) as connection:
        row = await row_at(connection, site_id, query)
        return row[0] if row else None


async def _stamp(
    engine: AsyncEngine, site_id: SiteId, attempt: str, **values: ColumnElement[Any]
) -> Progress:
    async with autocommit(engine) as connection:
        row = await row_at(
            connection,
            site_id,
            update(sites)
            .where(still(site_id, attempt))
            .values(metadata=stamped(**values))
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
        raise _unknown(site_id)
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


def _unknown(site_id: SiteId) -> UnknownSite:
    return UnknownSite(f"there is no site {one_line(str(site_id)) or repr(site_id)}")


def _progress(row: Any) -> Progress:
    claim = (
        Claim(row.site_id, row.made_by, row.made_for or "", row.upstream_id)
        if row.of_this_row and row.made_by is not None
        else None
    )
    return Progress(row.site_id, row.domain or "", claim, row.age)
