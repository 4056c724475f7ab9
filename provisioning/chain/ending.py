"""How an attempt ends: with the stamp of its end, or through the one terminal-failure path."""

import asyncio
from uuid import UUID

from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.chain.documents import completed, still
from provisioning.chain.polling import passes
from provisioning.database import autocommit
from provisioning.errors import DatabaseError, NotInFlight
from provisioning.failures import Source, fail_terminally
from provisioning.outbox.notices import Told
from provisioning.schema import SiteId, sites
from provisioning.site_state import Outcome, moved_on, read_stamps, row_at

FAIL_AGAIN_AFTER = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
"""Seconds before each further try to fail an attempt whose row is held, or whose database is away.
After the last of them the attempt stays in flight, and is the sweep's."""


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
    """Fail the attempt through the one terminal-failure path, trying again for a minute.

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
            if pause is None or not passes(error):
                raise
        await asyncio.sleep(pause)
    raise AssertionError("unreachable: the last try returns or raises")
