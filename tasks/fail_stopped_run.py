"""The chain's hook: a run that was stopped from outside fails its attempt all the same."""

from typing import Any

from prefect import Flow
from prefect.client.schemas.objects import FlowRun, State
from prefect.logging.loggers import flow_run_logger

from provisioning.chain import attempt_of, fail, known_as
from provisioning.database import database
from provisioning.errors import UnknownSite
from provisioning.outbox.notices import Told
from provisioning.settings import settings


async def fail_stopped_run(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:
    """Fail the attempt that a crashed or cancelled run began and that is still in flight.

    Runs in the worker where the run's own process is gone. Where the worker is gone too it does
    not run at all, and the attempt is the sweep's.
    """
    config = settings()
    async with database(
        config.database_url.get_secret_value(), pooled=config.database_pooled
    ) as engine:
        try:
            site_id = await known_as(engine, flow_run.parameters["site_id"])
        except UnknownSite:
            return
        attempt = await attempt_of(engine, site_id, str(flow_run.id))
        if attempt is None:
            return
        how = "crashed" if state.is_crashed() else "was cancelled"
        outcome = await fail(
            engine,
            site_id,
            attempt,
            f"chain: the run {how} before the site was live",
            told=Told.STOPPED,
            teardown=config.teardown_url is not None,
            flow_run_id=flow_run.id,
        )
    log = flow_run_logger(flow_run, flow)
    log.warning("The attempt of %s for site %s: %s", attempt, site_id, outcome)
