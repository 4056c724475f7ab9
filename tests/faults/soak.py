"""The races for as long as you like: `python -m tests.faults.soak --attempts 200000`.

Starts a PostgreSQL of its own, prints what happened, and exits with 1 on the first attempt that
ended twice.
"""

import argparse
import asyncio
import tempfile
from pathlib import Path

from deployments.postgres import local_postgres
from tests.conftest import adopt
from tests.faults.contest import contest

BATCH = 20_000


async def soak(url: str, attempts: int, seed: int) -> None:
    async with contest(url, seed) as races:
        seconds = 0.0
        for target in [*range(BATCH, attempts, BATCH), attempts]:
            await races.run(target)
            seconds += races.seconds
            print(f"{races.attempts:>9,} attempts, {seconds:,.0f} s", flush=True)
        races.seconds = seconds
        print(races)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.soak", description=__doc__)
    parser.add_argument("--attempts", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="soak-") as folder,
        local_postgres(Path(folder), durable=False) as postgres,
    ):
        postgres.ensure_database("soak")
        adopt(postgres.url("soak"))
        asyncio.run(soak(postgres.url("soak"), chosen.attempts, chosen.seed))


if __name__ == "__main__":
    main()
