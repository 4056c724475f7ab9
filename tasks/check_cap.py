"""Step 2: refuse, or let the sweep act."""

from provisioning.sweep.caps import Caps, Standing, check
from tasks.policy import step


@step("check_cap", "check cap: {found} found")
async def check_cap(
    found: int, in_flight: int, reaped_last_hour: int, caps: Caps, standing: Standing | None
) -> None:
    """Raises `CapExceeded` where a person must look first.

    It raises, because a task that returns a failed state does not stop its caller.
    """
    check(found, in_flight, reaped_last_hour, caps, standing)
