"""After step 2, where the sweep may act: earlier refusals are over, or were let through."""

from datetime import timedelta

from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.sweep.approvals import Refusal
from provisioning.sweep.refusals import close_refusals, release_refusals
from tasks.policy import database_task


@database_task("answer_refusals", "answer earlier refusals")
async def answer_refusals(
    engine: AsyncEngine, threshold: timedelta, approves: Refusal | None
) -> None:
    """Write down that none stands any longer.

    An approval of a part answers nothing: what was left out of it is still held back.
    """
    if approves is None:
        await close_refusals(engine, threshold)
    elif approves.only_step is None:
        await release_refusals(engine)
