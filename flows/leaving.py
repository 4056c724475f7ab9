"""The end of a run's process, which Prefect keeps until its last log and event are sent.

A server that stopped answering is tried for two minutes for each event, and a run has dozens.
"""

import os
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from prefect.context import FlowRunContext

LEAVE_AFTER = 180.0
"""Seconds from the end of the work to the end of the process. Longer than the call takes that tells
the server how the run ended, with the settings of `prefect.yaml`: a test holds it."""


@asynccontextmanager
async def leaving() -> AsyncIterator[None]:
    """Bound what comes after the block, where this is the process of a run alone.

    Its exit code is 0 if the server took the run's end, and 1 if nobody knows of it.
    """
    try:
        yield
    finally:
        context = FlowRunContext.get()
        run = context.flow_run if context else None
        if run and os.environ.get("PREFECT__FLOW_RUN_ID") == str(run.id):

            def leave() -> None:
                time.sleep(LEAVE_AFTER)
                print(
                    f"Prefect's server did not take the last events of this run within "
                    f"{LEAVE_AFTER:g} s: left without",
                    file=sys.stderr,
                    flush=True,
                )
                os._exit(0 if run.state and run.state.is_final() else 1)

            threading.Thread(target=leave, name="leaving", daemon=True).start()
