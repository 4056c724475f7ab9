"""The one terminal-failure path, which the chain's handler and the sweep both call."""

from datetime import datetime
from enum import StrEnum
from uuid import UUID

from sqlalchemy import (
    Boolean,
    ColumnElement,
    DateTime,
    Text,
    Update,
    Uuid,
    bindparam,
    cast,
    func,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.types import NullType

from provisioning.claims import TO_TEAR_DOWN
from provisioning.database import autocommit
from provisioning.errors import DatabaseError, NotMarked
from provisioning.outbox.notices import LONGEST_DOMAIN, Told, owed_for, stable_ids
from provisioning.schema import DOMAIN, SiteId, row_of, sites, terminal_failures
from provisioning.site_state import Outcome, moved_on, read_stamps, row_at, stamps_in, stamps_query
from provisioning.stamps import (
    FAILED,
    IN_FLIGHT,
    STARTED,
    WEBHOOK,
    WEBHOOK_SECRET,
    iso,
    stuck_before,
)
from provisioning.text import storable

TRIES = 3
"""How often a mark that changed no row is tried, since the row can change and change back."""


class Source(StrEnum):
    """Who failed the site."""

    WATCHDOG = "watchdog"
    APPROVED = "approved"
    """A sweep that approves a refusal."""
    CHAIN = "chain"


async def fail_terminally(
    engine: AsyncEngine,
    site_id: SiteId,
    attempt: str,
    *,
    reason: str,
    source: Source,
    told: Told = Told.FAILED,
    detail: str = "",
    flow_run_id: UUID | None = None,
    started_before: datetime | None = None,
    teardown: bool = False,
    by_person: bool = False,
    note: str | None = None,
) -> Outcome:
    """Fail one attempt of one site, once: the mark, the ledger row and the notices owed.

    All three are one statement. The mark is an UPDATE whose own WHERE repeats every condition, so
    whoever comes second, the chain or another sweep, changes nothing and owes nothing. Nothing is
    sent here: what is owed survives a crash, and whoever delivers holds no lock.

    Args:
        attempt: the start stamp, verbatim.
        reason: why, for the mark and the ledger. What can't be stored is replaced.
        told: why, for the merchant.
        detail: what an operator should know beside the reason. It stays in the ledger.
        started_before: fail it only if it started before this instant; None from the chain, which
            knows that its own attempt has failed.
        teardown: whether the platform is owed a teardown of what the attempt made.
        by_person: whether a person started the sweep: the hourly cap leaves such failures out.
        note: what that person had to say, for the ledger. What can't be stored is replaced.

    Returns:
        `REAPED`, or how the attempt moved on before it could be. `BUSY` where somebody holds the
        row for longer than half a second, or where it became none to fail under our eyes: by a
        hold, say.

    Raises:
        DatabaseError: the database did not do it; nothing was changed.
        NotMarked: nothing stood in the way, and yet there is no mark; nothing was recorded.
    """
    values = {
        "site": str(site_id),
        "attempt": attempt,
        "reason": storable(reason),
        "detail": storable(detail) or None,
        "told": told.value,
        "source": source.value,
        "run": flow_run_id,
        "started_before": started_before,
        "teardown": teardown,
        "by_person": by_person,
        "note": note and storable(note),
        **stable_ids(site_id, attempt),
    }
    try:
        async with autocommit(engine) as connection:
            for _ in range(TRIES):
                marked = await row_at(connection, site_id, _FAIL, values)
                if marked is not None and marked.there:
                    if not marked.entered:
                        await connection.execute(_count_again(site_id, attempt))
                    return Outcome.REAPED
                if marked is not None:
                    raise NotMarked(
                        "the mark is not there in what the UPDATE itself returned. Look for a "
                        f"BEFORE UPDATE trigger on {sites.fullname} that sets its metadata"
                    )
                moved = moved_on(await read_stamps(connection, site_id), attempt)
                if moved:
                    return moved
                if await row_at(connection, site_id, _STILL_TO_FAIL, values) is None:
                    return Outcome.BUSY
    except DatabaseError as error:
        if error.locked:
            return Outcome.BUSY
        raise
    raise NotMarked(
        "the UPDATE changed no row although the site is still stuck and nobody holds it. Look for "
        f"a BEFORE UPDATE trigger on {sites.fullname} that returns NULL, for a rule and for a "
        "policy"
    )


async def times_marked_again(engine: AsyncEngine, site_id: SiteId, attempt: str) -> int:
    """How often the mark of a failed attempt was gone and set again, by what is committed now.

    Raises:
        NotMarked: the mark that was just set is gone already.
    """
    again = select(terminal_failures.c.marked_again).where(*_entry_of(site_id, attempt))
    query = stamps_query(site_id, again.scalar_subquery().label("again"))
    async with autocommit(engine) as connection:
        row = await row_at(connection, site_id, query)
    if moved_on(stamps_in(row), attempt) is None:
        raise NotMarked(
            "the mark was set and is gone again. Look for an AFTER UPDATE trigger on "
            f"{sites.fullname}, or for what saves whole documents over its metadata"
        )
    return row.again or 0 if row else 0


async def is_claimed_by(
    engine: AsyncEngine, site_id: SiteId, attempt: str, flow_run_id: UUID
) -> bool:
    """Whether the ledger holds that this flow run failed the attempt."""
    query = select(terminal_failures.c.id).where(
        *_entry_of(site_id, attempt),
        terminal_failures.c.flow_run_id == flow_run_id,
    )
    async with autocommit(engine) as connection:
        return (await connection.execute(query)).one_or_none() is not None


_ATTEMPT = bindparam("attempt", type_=Text())
_REASON = bindparam("reason", type_=Text())
_DETAIL = bindparam("detail", type_=Text())
_TOLD = bindparam("told", type_=Text())
_FAILURE_ID = bindparam("failure_id", type_=Uuid())
_SOURCE = bindparam("source", type_=Text())
_RUN = bindparam("run", type_=Uuid())
_STARTED_BEFORE = bindparam("started_before", type_=DateTime(timezone=True))
_TEARDOWN = bindparam("teardown", type_=Boolean())
_BY_PERSON = bindparam("by_person", type_=Boolean())
_NOTE = bindparam("note", type_=Text())

_TO_FAIL = (
    row_of(bindparam("site", type_=NullType())),
    STARTED == _ATTEMPT,
    IN_FLIGHT,
    or_(_STARTED_BEFORE.is_(None), stuck_before(_STARTED_BEFORE)),
)
_STILL_TO_FAIL = select(sites.c.id).where(*_TO_FAIL)

_MARK = (
    update(sites)
    .where(*_TO_FAIL)
    .values(
        metadata=sites.c.metadata.concat(
            func.jsonb_build_object(
                "terminal_failure",
                func.jsonb_build_object(
                    *("failed_at", iso(func.now())),
                    *("reason", _REASON),
                    *("source", _SOURCE),
                    *("started_at", STARTED),
                    *("flow_run_id", _RUN),
                ),
            )
        )
    )
    .returning(
        sites.c.id.label("id"),  # a name of 63 bytes would be cut on one side of the CTE alone
        DOMAIN.label("domain"),
        WEBHOOK.label("webhook"),
        WEBHOOK_SECRET.label("webhook_secret"),
        *TO_TEAR_DOWN,
        FAILED.is_not(None).label("there"),  # of the row as it is now, triggers included
    )
    .cte("mark")
)

# A platform that saves a stale whole document over the mark gets it marked again, and nobody is
# told twice: the attempt is in the ledger, so nothing is entered and nothing is owed.
_ENTRY = (
    insert(terminal_failures)
    .from_select(
        [
            *("id", "site_id", "domain", "attempt"),
            *("failed_at", "reason", "detail", "source", "flow_run_id", "by_person", "note"),
        ],
        select(
            *(_FAILURE_ID, cast(_MARK.c.id, Text)),
            *(func.left(_MARK.c.domain, LONGEST_DOMAIN), _ATTEMPT),
            *(func.now(), _REASON, _DETAIL, _SOURCE, _RUN, _BY_PERSON, _NOTE),
        ).where(_MARK.c.there),
    )
    .on_conflict_do_nothing()
    .returning(*terminal_failures.c)
    .cte("entry")
)

_OWED = owed_for(_MARK, _ENTRY, told=_TOLD, teardown=_TEARDOWN).cte("owed")

_FAIL = select(_MARK.c.there, select(_ENTRY.c.id).exists().label("entered")).add_cte(_ENTRY, _OWED)


def _count_again(site_id: SiteId, attempt: str) -> Update:
    return (
        update(terminal_failures)
        .where(*_entry_of(site_id, attempt))
        .values(marked_again=terminal_failures.c.marked_again + 1)
    )


def _entry_of(site_id: SiteId, attempt: str) -> tuple[ColumnElement[bool], ...]:
    return terminal_failures.c.site_id == str(site_id), terminal_failures.c.attempt == attempt
