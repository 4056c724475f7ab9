"""Step 5: deliver one notice."""

from dataclasses import replace
from logging import INFO, WARNING

from prefect import get_run_logger
from prefect.client.schemas.objects import State
from prefect.runtime import task_run
from prefect.states import Completed
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.outbox.delivery import Delivery, deliver
from provisioning.outbox.retry_policy import Fate, Verdict
from provisioning.outbox.store import Notice
from provisioning.settings import settings
from tasks.policy import database_task


@database_task("deliver_notice", "deliver {notice}")
async def deliver_notice(engine: AsyncEngine, notice: Notice) -> State[Delivery]:
    """Try once to deliver one notice. What it came to is the name of the task run's state.

    Retried where the database failed, never where the receiver did: for that there are the next
    sweeps. A try whose result got lost keeps its claim for a minute, and the notice stays owed.
    """
    delivery = await deliver(engine, notice, settings())
    if delivery.verdict is None and task_run.run_count > 1:
        # The claim that this try finds is the one of the try before it, whose result got lost.
        delivery = replace(delivery, verdict=Verdict(Fate.OWED, "no result was recorded"))
    log, fate = get_run_logger(), delivery.verdict and delivery.verdict.fate
    log.log(WARNING if fate in (Fate.OWED, Fate.GIVEN_UP) else INFO, "%s", delivery)
    name = fate.value.capitalize() if fate else "Left to another sender"
    return Completed(name=name, message=str(delivery), data=delivery)
