"""The one terminal-failure path, which the chain's handler and the sweep both call."""

from datetime import datetime
from enum import StrEnum
from uuid import UUID, uuid4

from sqlalchemy import Text, bindparam, cast, func, insert, select, text, true, update
from sqlalchemy.dialects.postgresql import insert as insert_or_ignore
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from provisioning.database import LOCK_TIMEOUT, sqlstate
from provisioning.notices import Failure, notices_owed
from provisioning.outcomes import Outcome, moved_on
from provisioning.schema import notices, sites, terminal_failures
from provisioning.sightings import standing
from provisioning.stamps import IN_FLIGHT, STARTED, STARTED_INSTANT, WEBHOOK
from provisioning.text import storable

_LOCK_NOT_AVAILABLE = "55P03"


class Source(StrEnum):
    """Who failed the site."""

    WATCHDOG = "watchdog"
    APPROVED = "approved"
    """A sweep that approves a refusal."""
    CHAIN = "chain"


async def fail_terminally(
    engine: AsyncEngine,
    site_id: int,
    attempt: str,
    *,
    reason: str,
    source: Source,
    flow_run_id: UUID | None = None,
    started_before: datetime | None = None,
    teardown: bool = False,
) -> Outcome:
    """Fail one attempt of one site, once: the mark, the ledger row and the notices owed.

    All three are one transaction. The mark is one UPDATE whose own WHERE repeats every condition,
    so whoever comes second, the chain or another sweep, changes nothing and owes nothing. Nothing
    is sent here: what is owed survives a crash, and whoever delivers holds no lock.

    Args:
        attempt: the start stamp, verbatim.
        reason: why, for people. What can't be stored is replaced.
        started_before: fail it only if it started before this instant; None from the chain, which
            knows that its own attempt has failed.
        teardown: whether the platform is owed a teardown of what the attempt made.

    Returns:
        `REAPED`, or how the attempt moved on before it could be. `BUSY` where somebody holds the
        row for longer than half a second.

    Raises:
        DBAPIError: the database did not do it; nothing was changed.
    """
    try:
        async with engine.begin() as transaction:
            await transaction.execute(text(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'"))
            failure = await _mark(
                transaction, site_id, attempt, storable(reason), source, flow_run_id, started_before
            )
            if failure is None:
                lost_to = moved_on(await standing(transaction, site_id), attempt)
                return lost_to or Outcome.BUSY
            if await _enter_in_ledger(transaction, failure):
                owed = notices_owed(failure, teardown=teardown)
                if owed:
                    await transaction.execute(insert(notices), owed)
            return Outcome.REAPED
    except DBAPIError as error:
        if sqlstate(error) == _LOCK_NOT_AVAILABLE:
            return Outcome.BUSY
        raise


async def is_claimed_by(engine: AsyncEngine, site_id: int, attempt: str, flow_run_id: UUID) -> bool:
    """Whether the ledger holds that this flow run failed the attempt."""
    query = select(terminal_failures.c.id).where(
        terminal_failures.c.site_id == site_id,
        terminal_failures.c.attempt == attempt,
        terminal_failures.c.flow_run_id == flow_run_id,
    )
    async with engine.connect() as connection:
        return (await connection.execute(query)).one_or_none() is not None


async def _mark(
    transaction: AsyncConnection,
    site_id: int,
    attempt: str,
    reason: str,
    source: Source,
    flow_run_id: UUID | None,
    started_before: datetime | None,
) -> Failure | None:
    """Write the mark where every condition still holds; None where one does not."""
    failed_at = func.to_char(
        func.timezone("UTC", func.now()), 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"', type_=Text()
    )
    mark = func.jsonb_build_object(
        "failed_at",
        failed_at,
        "reason",
        cast(reason, Text),
        "source",
        cast(source.value, Text),
        "started_at",
        STARTED,
        "flow_run_id",
        cast(flow_run_id and str(flow_run_id), Text),
    )
    row = (
        await transaction.execute(
            update(sites)
            .where(
                sites.c.id == site_id,
                STARTED == bindparam("attempt", attempt, type_=Text()),
                IN_FLIGHT,
                STARTED_INSTANT < started_before if started_before else true(),
            )
            .values(
                metadata=sites.c.metadata.concat(func.jsonb_build_object("terminal_failure", mark))
            )
            .returning(sites.c.domain, WEBHOOK.label("webhook"), func.now().label("failed_at"))
        )
    ).one_or_none()
    if row is None:
        return None
    return Failure(
        id=uuid4(),
        site_id=site_id,
        domain=row.domain,
        attempt=attempt,
        failed_at=row.failed_at,
        reason=reason,
        source=source.value,
        flow_run_id=flow_run_id,
        webhook=row.webhook,
    )


async def _enter_in_ledger(transaction: AsyncConnection, failure: Failure) -> bool:
    """Claim the attempt; False where it was claimed before and its mark has since been lost.

    A platform that saves a stale whole document over the mark gets it marked again, and nobody is
    told twice.
    """
    claimed = await transaction.execute(
        insert_or_ignore(terminal_failures)
        .values(
            id=failure.id,
            site_id=failure.site_id,
            attempt=failure.attempt,
            failed_at=failure.failed_at,
            reason=failure.reason,
            source=failure.source,
            flow_run_id=failure.flow_run_id,
        )
        .on_conflict_do_nothing(index_elements=["site_id", "attempt"])
        .returning(terminal_failures.c.id)
    )
    return claimed.one_or_none() is not None
