"""Run as a process: one chain, as a worker's process runs it. Arguments: the site's id, and the
seconds after which it leaves."""

import asyncio
import os
import sys
from typing import Any

from prefect import get_client
from prefect.flow_engine import run_flow

from flows import leaving
from flows.provision_site import provision_site
from provisioning.chain import polling


async def main(site_id: int, leave_after: float) -> None:
    polling.PAUSES = (0.2,) * 5
    leaving.LEAVE_AFTER = leave_after
    async with get_client() as client:
        run = await client.create_flow_run(provision_site, parameters={"site_id": site_id})
    os.environ["PREFECT__FLOW_RUN_ID"] = str(run.id)
    running: Any = run_flow(provision_site, flow_run=run, parameters=run.parameters)
    await running


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2])))
