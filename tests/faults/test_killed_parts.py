"""The parts around a sweep are killed: its worker, the Prefect server, PostgreSQL. F21.

After each: the next sweep finishes the work without a person, and none is blocked.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from deployments.postgres import LocalPostgres, local_postgres
from provisioning.database import database
from provisioning.settings import settings
from tests.commands import ROOT
from tests.conftest import adopt, free_port, server_process
from tests.faults.aftermath import SITES, Aftermath
from tests.flow.conftest import Sweep
from tests.flow.traces import message
from tests.outbox.receivers import Receiver, Request
from tests.production import Production
from tests.sites import Sites

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


async def until(happened: Callable[[], bool], what: str, seconds: float = 90) -> None:
    """Wait for something, in small steps."""
    deadline = time.monotonic() + seconds
    while not await asyncio.to_thread(happened):
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("state", [pytest.param("PENDING", marks=pytest.mark.long), "RUNNING"])
@pytest.mark.guarantee(
    fault=(
        "a worker killed with kill -9 while its sweep is Pending, and while it is in the "
        "middle of a mark"
    ),
    holds="the next scheduled sweep runs and reaps (F21)",
)
async def test_a_worker_killed_with_its_run_blocks_no_later_sweep(
    production: Production, platform: Sites, state: str
) -> None:
    """F21. A trigger holds the running sweep at its first mark until the worker is dead."""
    await platform.run("CREATE TABLE IF NOT EXISTS hold (n int)")
    await platform.run(
        """
        CREATE OR REPLACE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
          WHILE EXISTS (SELECT 1 FROM hold) LOOP PERFORM pg_sleep(0.05); END LOOP;
          RETURN NEW;
        END $$
        """
    )
    await platform.run(
        "CREATE OR REPLACE TRIGGER hold BEFORE UPDATE ON sites EXECUTE FUNCTION hold()"
    )
    await platform.run("INSERT INTO hold VALUES (1)")
    await platform.add_many(3)
    try:
        killed = production.custom_run()

        def reached() -> bool:
            return bool(production.get(f"/flow_runs/{killed}")["state_type"] == state)

        await until(reached, f"the run was never {state}")
        if state == "RUNNING":
            await until_marking(platform)
        await asyncio.to_thread(production.kill_worker)
        assert await platform.ledger() == []
        await platform.run("DELETE FROM hold")
        with production.scheduled_in(seconds=3) as next_sweep:
            await asyncio.to_thread(production.start_worker)
            assert (await production.ended(next_sweep, seconds=90))["state_name"] == "Reaped"
        assert await platform.ledger() == await platform.failed() == [1, 2, 3]
        assert production.get(f"/flow_runs/{killed}")["state_type"] in (state, "CRASHED")
    finally:
        await platform.run("DELETE FROM hold")
        await platform.run("DROP FUNCTION hold CASCADE")
        await platform.run("DROP TABLE hold")


async def until_marking(platform: Sites) -> None:
    """Wait until a sweep stands in the middle of a mark."""
    for _ in range(3_000):
        if await platform.rows(
            "SELECT 1 FROM pg_stat_activity WHERE application_name = 'provision-reaper'"
            " AND query LIKE '%UPDATE sites%' AND state = 'active' AND pid <> pg_backend_pid()"
        ):
            return
        await asyncio.sleep(0.02)
    raise AssertionError("no sweep came to its marks")


def answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/api/health", timeout=5).is_success
    except httpx.HTTPError:
        return False


class Gate:
    """A receiver's behaviour: the first request waits until the gate is opened."""

    def __init__(self) -> None:
        self.reached, self.opened = asyncio.Event(), asyncio.Event()

    async def __call__(self, _request: Request, writer: asyncio.StreamWriter) -> None:
        self.reached.set()
        await self.opened.wait()
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")


@pytest.mark.long
@pytest.mark.guarantee(
    fault="the Prefect server killed and started again in mid-sweep",
    holds="the sites are failed and the merchants told once; the next sweep is clean",
)
async def test_a_prefect_server_killed_in_mid_sweep_leaves_nothing_undone(
    postgres: LocalPostgres, aftermath: Aftermath, sweep: Sweep, folder: Path
) -> None:
    port, gate = free_port(), Gate()
    aftermath.merchant.behaviours = [gate]
    with ExitStack() as servers:
        first = servers.enter_context(
            server_process(postgres, "prefect_killed", port, folder / "1.log")
        )
        await until(lambda: answers(port), "the server did not start")
        sweeping = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.faults.one_sweep",
            cwd=ROOT,
            env=os.environ | {"PREFECT_API_URL": f"http://127.0.0.1:{port}/api"},
            stdout=asyncio.subprocess.PIPE,
        )
        await asyncio.wait_for(gate.reached.wait(), 90)
        psutil.Process(first.process.pid).kill()
        first.process.wait()
        gate.opened.set()
        servers.enter_context(server_process(postgres, "prefect_killed", port, folder / "2.log"))
        told, _ = await asyncio.wait_for(sweeping.communicate(), 120)
        print(told.decode())
    await aftermath.leases_run_out()
    state = await sweep()
    assert state.name == "Clean", message(state)
    await aftermath.all_is_well()


@pytest.fixture
async def own_postgres(folder: Path) -> Any:
    with local_postgres(folder / "data") as server:
        yield server


@pytest.fixture
def shop(
    own_postgres: LocalPostgres, prefect_api: str, worker_environment: pytest.MonkeyPatch
) -> str:
    """The URL of a migrated database on that server, which this worker sweeps."""
    own_postgres.ensure_database("shop")
    url = own_postgres.url("shop")
    adopt(url)
    worker_environment.setenv("PROVISION_DATABASE_URL", url)
    settings.cache_clear()
    return url


async def stop_hard(server: LocalPostgres) -> None:
    """An immediate shutdown: no goodbye to anybody, and recovery at the next start."""
    os.kill(server.pid, signal.SIGQUIT)
    await until(lambda: not psutil.pid_exists(server.pid), "PostgreSQL did not stop")


@pytest.mark.parametrize("moment", ["at a mark", pytest.param("at a send", marks=pytest.mark.long)])
@pytest.mark.guarantee(
    fault="PostgreSQL stopped hard and started again, during a mark and during a send",
    holds="the sweep goes on by itself, the next one finishes",
)
async def test_postgresql_stopped_hard_in_mid_sweep_leaves_nothing_undone(
    merchant: Receiver,
    own_postgres: LocalPostgres,
    shop: str,
    folder: Path,
    sweep: Sweep,
    moment: str,
) -> None:
    gate = Gate()
    async with database(shop) as engine:
        sites = Sites(engine)
        for site_id in SITES:
            await sites.add_started(site_id, provision={"webhook": merchant.url(f"/{site_id}")})
        if moment == "at a mark":
            await sites.run(
                "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS"
                " $$ BEGIN PERFORM pg_sleep(0.4); RETURN NEW; END $$"
            )
            await sites.run("CREATE TRIGGER slow BEFORE UPDATE ON sites EXECUTE FUNCTION slow()")
        else:
            merchant.behaviours = [gate]
    sweeping = asyncio.create_task(sweep())
    if moment == "at a mark":
        async with database(shop) as engine:
            await until_marking(Sites(engine))
    else:
        await asyncio.wait_for(gate.reached.wait(), 60)
    await stop_hard(own_postgres)
    gate.opened.set()
    with local_postgres(folder / "data"):
        interrupted = await sweeping
        print(interrupted.name, message(interrupted))
        assert interrupted.name in ("Reaped", "Incomplete")
        async with database(shop) as engine:
            aftermath = Aftermath(Sites(engine), merchant)
            await aftermath.leases_run_out()
            state = await sweep()
            assert state.name in ("Reaped", "Clean"), message(state)
            await aftermath.all_is_well()


@pytest.mark.long
@pytest.mark.guarantee(
    fault="PostgreSQL stays away",
    holds="the run is Failed, never Clean, and the next one reaps",
)
async def test_postgresql_that_stays_away_ends_the_sweep_and_the_next_one_finishes(
    own_postgres: LocalPostgres, shop: str, folder: Path, sweep: Sweep
) -> None:
    async with database(shop) as engine:
        await Sites(engine).add_many(3)
    await stop_hard(own_postgres)
    state = await sweep()
    assert state.name == "Failed"
    assert message(state).startswith("Could not look")
    with local_postgres(folder / "data"):
        assert (await sweep()).name == "Reaped"
        async with database(shop) as engine:
            assert await Sites(engine).ledger() == [1, 2, 3]
