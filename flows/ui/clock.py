"""Which of two clocks is right, by a third one: that of the Prefect server. Best effort."""

import asyncio
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from prefect.client.orchestration import get_client

from provisioning.sweep.preflight import CLOCK_TOLERANCE

ASK_SECONDS = 5


async def which_is_right(database_ahead: timedelta) -> str:
    """A sentence on the database's clock and this worker's, which differ; "" if nobody knows."""
    try:
        async with asyncio.timeout(ASK_SECONDS), get_client() as client:
            said = (await client.hello()).headers["Date"]
            server_ahead = parsedate_to_datetime(said) - datetime.now(UTC)
    except Exception:  # noqa: BLE001  (the run fails with or without this sentence)
        return ""
    return agreement(database_ahead, server_ahead)


def agreement(database_ahead: timedelta, server_ahead: timedelta) -> str:
    """Whom the Prefect server's clock agrees with.

    Args:
        database_ahead: how far the database's clock is ahead of the worker's.
        server_ahead: how far the Prefect server's clock is ahead of the worker's.
    """
    if abs(server_ahead) <= CLOCK_TOLERANCE:
        return "The Prefect server's clock agrees with the worker's, so look at the database's."
    if abs(server_ahead - database_ahead) <= CLOCK_TOLERANCE:
        return "The Prefect server's clock agrees with the database's, so look at the worker's."
    return "The Prefect server's clock agrees with neither of them."
