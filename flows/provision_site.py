"""The chain: provision one site, bound each wait, and hand whatever goes wrong to one path.

The first line of defence. A run that is told to stop, or whose process dies while its worker lives,
fails its attempt too; a run that dies with its worker does nothing more, and is the sweep's.
"""

from datetime import timedelta
from typing import Annotated, Any
from uuid import UUID

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.logging import get_run_logger
from prefect.runtime import flow_run
from prefect.states import Cancelled, Completed, Failed
from pydantic import Field, StrictInt, StrictStr, WithJsonSchema
from sqlalchemy.ext.asyncio import AsyncEngine

from flows.leaving import leaving
from provisioning import chain
from provisioning.chain import age
from provisioning.chain.forge import forge
from provisioning.chain.polling import Time
from provisioning.chain.upstream import Upstream
from provisioning.database import database
from provisioning.errors import (
    AlreadyInFlight,
    DatabaseError,
    Explained,
    GaveUp,
    NotInFlight,
    NotMarked,
    SettingsInvalid,
    UnknownSite,
    Unstampable,
)
from provisioning.outbox.dispatcher import sendable
from provisioning.outbox.notices import Told
from provisioning.schema import SiteId
from provisioning.settings import settings
from provisioning.site_state import Outcome
from provisioning.text import duration, one_line
from tasks.begin_attempt import begin_attempt
from tasks.check_health import check_health
from tasks.complete_attempt import complete_attempt
from tasks.deliver_notice import deliver_notice
from tasks.fail_stopped_run import fail_stopped_run
from tasks.list_owed import list_owed
from tasks.request_site import request_site
from tasks.wait_until_installed import wait_until_installed

_ID_IN_THE_FORM = {"anyOf": [{"type": "integer"}, {"type": "string", "minLength": 1}]}
"""A uuid is typed as text, so the UI's form offers no third way."""

SUPERSEDED = "Superseded"
"""The attempt was over before its chain was. Of type Cancelled: nothing went wrong that a person
must look at, and nothing was brought to live either."""

SWEEPS_AFTER = timedelta(minutes=30)
"""The age at which a sweep fails an attempt by default: `stuck_after_minutes`. A test holds it."""

DECLINED = "Declined"
"""Another run is at it. Of type Cancelled, as a double click is neither a failure nor a success."""


@flow(
    name="provision-site",
    flow_run_name="provision site {site_id}",
    retries=0,  # a run that failed has failed its attempt; another one is a decision
    persist_result=False,
    on_crashed=[fail_stopped_run],
    on_cancellation=[fail_stopped_run],
)
async def provision_site(
    site_id: Annotated[StrictInt | UUID | StrictStr, WithJsonSchema(_ID_IN_THE_FORM)],
    give_up_after_minutes: Annotated[int, Field(ge=1, le=1440)] = 20,
) -> State[Any]:
    """Provision one site: ask the upstream for it, wait until it is installed, check its health.

    Args:
        site_id: The id of the site, in the platform's table of sites: a number, a uuid or text.
        give_up_after_minutes: How long after its start the attempt is failed, when the site is
            not live by then. In minutes, by the database's clock; at least 1. It is stamped as the
            attempt's deadline, before which no sweep fails it.
    """
    try:
        config = settings()
        upstream = forge(config)
    except SettingsInvalid as error:
        return Failed(message=f"Nothing was started: {error}")
    url = config.database_url.get_secret_value()
    async with leaving(), database(url, pooled=config.database_pooled) as engine:
        return await provision(
            engine,
            upstream,
            site_id,
            health_url=config.health_url,
            limit=timedelta(minutes=give_up_after_minutes),
            teardown=config.teardown_url is not None,
        )


async def provision(
    engine: AsyncEngine,
    upstream: Upstream,
    site_id: SiteId,
    *,
    health_url: str,
    limit: timedelta,
    teardown: bool,
) -> State[Any]:
    """One attempt, from its start stamp to its end. Every step asks first whether it may go on."""
    log = get_run_logger()
    if limit >= SWEEPS_AFTER:
        log.warning(
            "This attempt may take %s, and a sweep fails what is older than %s unless its own "
            "parameter says otherwise: provision.deadline is stamped, and sweeps leave the attempt "
            "alone until then.",
            duration(limit),
            duration(SWEEPS_AFTER),
        )
    try:
        site_id, attempt = await begin_attempt(engine, site_id, flow_run.id, limit)
    except AlreadyInFlight as error:
        return Cancelled(name=DECLINED, message=f"Nothing was started: {error}.")
    except (UnknownSite, Unstampable) as error:
        return Failed(message=f"Nothing was started: {error}.")
    except (GaveUp, DatabaseError) as error:
        return Failed(message=f"Could not start: {error}")
    log.info("The attempt is %s", attempt)

    within = Time(limit, lambda: age(engine, site_id, attempt))
    try:
        upstream_id = await request_site(engine, upstream, site_id, attempt, within)
        await wait_until_installed(engine, upstream, site_id, attempt, upstream_id, within)
        await check_health(engine, site_id, attempt, health_url, within)
        await complete_attempt(engine, site_id, attempt, within)
    except NotInFlight as late:
        return Cancelled(name=SUPERSEDED, message=f"Stopped: {late}.")
    except Exception as error:  # noqa: BLE001  (whatever it is, the site must not wait for ever)
        return await _fail(
            engine, site_id, attempt, reason(error), told=told(error), teardown=teardown
        )
    return Completed(
        name="Live", message=f"Site {site_id} is live as the upstream's {upstream_id}."
    )


def reason(error: Exception) -> str:
    """Why the attempt failed, as operators read it."""
    if isinstance(error, Explained):
        return f"chain: {error}".removesuffix(".")
    return f"chain: {type(error).__name__}: {one_line(str(error), 300)}"


def told(error: Exception) -> Told:
    """Why the attempt failed, as the merchant reads it."""
    return Told.LATE if isinstance(error, GaveUp) else Told.FAILED


async def _fail(
    engine: AsyncEngine, site_id: SiteId, attempt: str, why: str, *, told: Told, teardown: bool
) -> State[Any]:
    """Fail the attempt and end red with the reason, or say that somebody else ended it before."""
    try:
        outcome = await chain.fail(
            engine,
            site_id,
            attempt,
            why,
            told=told,
            teardown=teardown,
            flow_run_id=UUID(flow_run.id),
        )
    except (DatabaseError, NotMarked) as error:
        return Failed(message=f"{why}. Not recorded, left to the sweep: {error}")
    match outcome:
        case Outcome.REAPED:
            await _tell(engine, site_id)
            return Failed(message=f"{why}.")
        case Outcome.ALREADY_FAILED:
            return Failed(message=f"{why}. The site had been failed before.")
        case Outcome.BUSY:
            return Failed(message=f"{why}. Not recorded, left to the sweep: the row is held.")
        case _:
            over = NotInFlight(site_id, attempt, outcome)
            return Cancelled(name=SUPERSEDED, message=f"Stopped: {over}. It had come to: {why}.")


async def _tell(engine: AsyncEngine, site_id: SiteId) -> None:
    """Deliver at once what the failure owes. What is not delivered now is the next sweep's."""
    try:
        for notice in sendable(await list_owed(engine), settings()):
            if notice.site_id == str(site_id):
                await deliver_notice(engine, notice)
    except Exception as error:  # noqa: BLE001  (the site is failed; nothing here may hide that)
        get_run_logger().warning("Notices are left to the sweep: %s", type(error).__name__)
