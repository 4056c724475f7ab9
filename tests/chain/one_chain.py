"""Run as a process: one chain with this environment, for the site whose id is the argument."""

import asyncio
import sys
from typing import Any

from flows.provision_site import provision_site
from provisioning.chain import polling


def main(site_id: int) -> None:
    polling.PAUSES = (0.2,) * 5
    flow: Any = provision_site
    asyncio.run(flow(site_id, return_state=True))


if __name__ == "__main__":
    main(int(sys.argv[1]))
