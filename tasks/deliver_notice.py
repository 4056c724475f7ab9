"""Step 5: deliver what is owed, by this run, by earlier ones and by the chain."""

from dataclasses import replace
from logging import INFO, WARNING

from prefect import get_run_logger
from prefect.client.schemas.objects import State
from prefect.runtime import task_run
from prefect.states import Completed
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.owed import LISTED, Backlog, Notice
from provisioning.owed import list_owed as look_up_owed
from provisioning.rounds import Attempt, Deliveries, deliver, sendable, side_by_side, sum_up
from provisioning.settings import settings
from provisioning.verdicts import Fate, Verdict
from tasks.step import database_step


async def deliver_owed(engine: AsyncEngine) -> Deliveries:
    """Send what is due, side by side and within a bound, and say what is owed afterwards.

    Called from a flow, whose log gets one line for all of it beside one line a notice.

    Raises:
        DBAPIError: what is owed could not be looked up.
    """
    log, config = get_run_logger(), settings()
    backlog = await list_owed(engine)
    due = sendable(backlog, config)
    if due and config.webhook_secret is None:
        log.warning("Notices are sent unsigned: PROVISION_WEBHOOK_SECRET is not set.")

    async def deliver_one(notice: Notice) -> Attempt:
        state = await deliver_notice(engine, notice)
        return await state.aresult()

    deliveries = sum_up(backlog, await side_by_side(due, deliver_one), config)
    if not deliveries.quiet:
        log.info("Notices: %s.", deliveries)
    return deliveries


@database_step("list_owed", "list owed notices")
async def list_owed(engine: AsyncEngine) -> Backlog:
    """What is owed as of now, the longest due first."""
    teardowns = settings().teardown_url is not None
    return await look_up_owed(engine, LISTED, teardowns=teardowns)


@database_step("deliver_notice", "deliver {notice}")
async def deliver_notice(engine: AsyncEngine, notice: Notice) -> State[Attempt]:
    """One attempt at one notice. What it came to is the name of the task run's state.

    Retried where the database failed, never where the receiver did: for that there are the next
    sweeps. A try whose result got lost keeps its claim for a minute, and the notice stays owed.
    """
    attempt = await deliver(engine, notice, settings())
    if attempt.verdict is None and task_run.run_count > 1:
        # The claim that this try finds is the one of the try before it, whose result got lost.
        attempt = replace(attempt, verdict=Verdict(Fate.OWED, "no result was recorded"))
    log, fate = get_run_logger(), attempt.verdict and attempt.verdict.fate
    log.log(WARNING if fate in (Fate.OWED, Fate.GIVEN_UP) else INFO, "%s", attempt)
    name = fate.value.capitalize() if fate else "Left to another sender"
    return Completed(name=name, message=str(attempt), data=attempt)
