"""Step 2: refuse, or let the sweep act."""

from provisioning.sweep.caps import Caps, check
from tasks.policy import step


@step("check_cap", "check cap: {found} found")
async def check_cap(found: int, reaped_last_hour: int, caps: Caps) -> None:
    """Raises `CapExceeded` where a person must look first.

    It raises, because a task that returns a failed state does not stop its caller.
    """
    check(found, reaped_last_hour, caps)
