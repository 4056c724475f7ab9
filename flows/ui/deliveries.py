"""The deliveries of a run, in its log."""

from prefect import get_run_logger
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.errors import DatabaseError
from provisioning.outbox.claims import prune
from provisioning.outbox.delivery import Delivery
from provisioning.outbox.dispatcher import Deliveries, sendable, side_by_side, sum_up
from provisioning.outbox.notices import Kind
from provisioning.outbox.store import Notice
from provisioning.settings import settings
from provisioning.sweep.result import NotLookedUp
from tasks.deliver_notice import deliver_notice
from tasks.list_owed import list_owed


async def deliver_owed(engine: AsyncEngine) -> Deliveries:
    """Send what is due, side by side and within a bound, and say what is owed afterwards.

    Called from a flow, whose log gets one line for all of it beside one line a notice.

    Raises:
        DatabaseError: what is owed could not be looked up.
    """
    log, config = get_run_logger(), settings()
    backlog = await list_owed(engine)
    due = sendable(backlog, config)
    if config.webhook_secret is None and any(n.kind is Kind.WEBHOOK and not n.signed for n in due):
        log.warning("Notices are sent unsigned: PROVISION_WEBHOOK_SECRET is not set.")
    if config.teardown_secret is None and any(n.kind is Kind.TEARDOWN for n in due):
        log.warning("Teardowns are sent unsigned: PROVISION_TEARDOWN_SECRET is not set.")

    async def deliver_one(notice: Notice) -> Delivery:
        state = await deliver_notice(engine, notice)
        return await state.aresult()

    deliveries = sum_up(backlog, await side_by_side(due, deliver_one), config)
    if not deliveries.quiet:
        log.info("Notices: %s.", deliveries)
    try:
        await prune(engine)
    except DatabaseError as error:
        log.warning("Notices that were settled long ago were not deleted: %s", error)
    return deliveries


async def deliver_or_say(engine: AsyncEngine) -> Deliveries | NotLookedUp:
    """As `deliver_owed`; where what is owed can't be looked up, why."""
    try:
        return await deliver_owed(engine)
    except DatabaseError as error:
        return NotLookedUp(str(error))
