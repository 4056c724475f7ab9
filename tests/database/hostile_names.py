"""Run as a process, with a platform's names in the environment: looks, fails the site that is
stuck, takes another one through the chain, and prints as JSON what became of the first, the plan
of the query and the contract."""

import asyncio
import json
import os
from datetime import UTC, datetime, timedelta

from provisioning import chain
from provisioning.chain.contract import contract
from provisioning.database import database
from provisioning.failures import Source, fail_terminally
from provisioning.sweep.queries import stuck_query
from provisioning.sweep.snapshot import look

THRESHOLD = timedelta(minutes=30)
OTHER = 3_000_000_003


async def main() -> None:
    async with database(os.environ["PROVISION_DATABASE_URL"]) as engine:
        (site,) = (await look(engine, THRESHOLD, 10, writes=True)).stuck
        outcome = await fail_terminally(
            engine,
            site.site_id,
            site.attempt,
            reason="watchdog: x",
            source=Source.WATCHDOG,
            started_before=datetime.now(UTC) - THRESHOLD,
        )
        attempt = await chain.begin(engine, OTHER)
        await chain.step(engine, OTHER, attempt, "dns")
        await chain.complete(engine, OTHER, attempt)
        async with engine.connect() as connection:
            await connection.exec_driver_sql("SET enable_seqscan = off")
            query = stuck_query().compile(
                dialect=connection.dialect, compile_kwargs={"render_postcompile": True}
            )
            values = query.params | {"threshold": THRESHOLD, "limit": 10}
            plan = (await connection.exec_driver_sql(f"EXPLAIN {query}", values)).scalars().all()
    print(json.dumps({"outcome": outcome, "plan": "\n".join(plan), "contract": contract()}))


if __name__ == "__main__":
    asyncio.run(main())
