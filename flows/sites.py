"""Each site of a sweep: looked at again, failed if it is still stuck. And when to stop asking."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from logging import INFO, WARNING
from uuid import UUID

import anyio
from prefect.logging import get_run_logger
from prefect.runtime import flow_run
from sqlalchemy.ext.asyncio import AsyncEngine

from flows.ui.publish import announce_reaped
from provisioning.errors import DatabaseError, Explained
from provisioning.failures import Source
from provisioning.site_state import Outcome
from provisioning.sweep.holders import who_holds
from provisioning.sweep.result import Result, stays_busy
from provisioning.sweep.snapshot import Candidate, Snapshot, set_aside_since
from provisioning.text import count, duration, one_line
from tasks.fail_site_terminally import fail_site_terminally
from tasks.refresh_site import refresh_site

SITE_SECONDS = 100
"""The most that one site may take. A lost connection whose retries mend it takes less."""


@dataclass(frozen=True)
class Act:
    """What a sweep does to a site that is still stuck, and says of it."""

    reason: str
    source: Source
    by_person: bool
    note: str | None
    dry_run: bool


async def settle_all(
    engine: AsyncEngine, snapshot: Snapshot, act: Act, *, time_left: Callable[[], float]
) -> list[Result]:
    """What became of each site: all of them, until the time is up or the database is gone.

    Args:
        time_left: seconds until no further site is begun.
    """
    results: list[Result] = []
    stopped = ""
    for site in snapshot.stuck:
        if time_left() <= 0:
            stopped = "the run's time was up"
            break
        result, gone = await settle(engine, site, snapshot, act)
        results.append(result)
        if gone:
            stopped = "the database was gone"
            break
    rest = snapshot.stuck[len(results) :]
    if rest:
        get_run_logger().error(
            "%s not reached, the first of them %s: %s; left to the next sweep",
            count(len(rest), "site"),
            rest[0],
            stopped,
        )
    return results + [Result(site, Outcome.NOT_REACHED, stopped) for site in rest]


async def settle(
    engine: AsyncEngine, site: Candidate, snapshot: Snapshot, act: Act
) -> tuple[Result, bool]:
    """Look at one site again and fail it if it is still stuck. An error here stops no other site.

    Returns:
        What became of it, and whether the database is gone, so that asking for others is in vain.
    """
    log = get_run_logger()
    try:
        with anyio.fail_after(SITE_SECONDS):
            result = await _result(engine, site, snapshot, act)
            if result.outcome is Outcome.BUSY:
                result = await _explained(engine, result, snapshot)
    except Exception as error:  # noqa: BLE001  (whatever happens to one site, the others go on)
        why = _in_words(error)
        log.error("%s: errored: %s", site, why)
        return Result(site, Outcome.ERRORED, why), _database_is_gone(error)
    log.log(
        WARNING if result.reason or result.marked_again else INFO,
        "%s: %s; started %s, %s before the sweep, last step %s",
        site,
        result,
        site.attempt,
        duration(snapshot.age(site)),
        site.step or "unknown",
    )
    if result.outcome is Outcome.REAPED:
        announce_reaped(site, act.reason, act.source, UUID(flow_run.id), act.note)
    return result, False


async def _result(engine: AsyncEngine, site: Candidate, snapshot: Snapshot, act: Act) -> Result:
    moved = await refresh_site(engine, site)
    if moved:
        return Result(site, moved)
    if act.dry_run:
        return Result(site, Outcome.WOULD_REAP)
    outcome, again = await fail_site_terminally(
        engine,
        site,
        reason=act.reason,
        source=act.source,
        flow_run_id=UUID(flow_run.id),
        cutoff=snapshot.cutoff,
        by_person=act.by_person,
        note=act.note,
    )
    return Result(site, outcome, marked_again=again)


async def _explained(engine: AsyncEngine, busy: Result, snapshot: Snapshot) -> Result:
    aside = await set_aside_since(engine, busy.candidate)
    if aside:
        return replace(busy, reason=aside, set_aside=True)
    if stays_busy(busy, snapshot):
        return replace(busy, reason=await who_holds(engine, busy.candidate))
    return busy


def _in_words(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"the database gave no answer within {SITE_SECONDS} seconds"
    return str(error) if isinstance(error, Explained) else one_line(repr(error), 300)


def _database_is_gone(error: Exception) -> bool:
    """Whether a connection was lost, and stayed lost over all retries."""
    return isinstance(error, TimeoutError) or (
        isinstance(error, DatabaseError) and error.transient and not error.locked
    )
