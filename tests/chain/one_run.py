"""Run as a process: one run of a flow, as a worker's process runs it. Arguments: the flow, its
parameters as JSON, and the seconds after which it leaves."""

import asyncio
import json
import os
import sys
from typing import Any

from prefect import get_client
from prefect.flow_engine import run_flow

from flows import leaving
from flows.provision_site import provision_site
from flows.reap_stuck_provisions import reap_stuck_provisions
from provisioning.chain import polling

FLOWS: dict[str, Any] = {"chain": provision_site, "sweep": reap_stuck_provisions}


async def main(name: str, parameters: dict[str, Any], leave_after: float) -> None:
    polling.PAUSES = (0.2,) * 5
    leaving.LEAVE_AFTER = leave_after
    async with get_client() as client:
        run = await client.create_flow_run(FLOWS[name], parameters=parameters)
    os.environ["PREFECT__FLOW_RUN_ID"] = str(run.id)
    running: Any = run_flow(FLOWS[name], flow_run=run, parameters=run.parameters)
    await running


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], json.loads(sys.argv[2]), float(sys.argv[3])))
