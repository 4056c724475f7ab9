"""A second database is a pool and a deployment of its own, in three lines of prefect.yaml."""

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest

from deployments.postgres import LocalPostgres
from deployments.processes import Service, service
from provisioning.database import database
from tests.production import ROOT, Production
from tests.sites import Sites

pytestmark = [pytest.mark.e2e, pytest.mark.long]

POOL = "provisioning-b"
NAME = "every-5-minutes-b"
DATABASE = "production_b"


class SecondRegion(Production):
    """The same flow on the same server; another deployment, another pool, another database."""

    @property
    def deployment(self) -> dict[str, Any]:
        """The sweep of the second region."""
        return self.get(f"/deployments/name/reap-stuck-provisions/{NAME}")


def _two_regions() -> str:
    """prefect.yaml with what docs/scaling.md adds to it, which the file itself has in a comment."""
    page = (ROOT / "docs" / "scaling.md").read_text()
    added = re.search(r"```yaml\n(  - <<: \*sweep\n.*?)```", page, re.DOTALL)
    assert added
    assert len(added[1].splitlines()) == 3, "the page says three lines"
    ours = (ROOT / "prefect.yaml").read_text()
    assert "".join(f"  # {line[2:]}\n" for line in added[1].splitlines()) in ours
    return f"{ours.rstrip()}\n\n{added[1]}"


@pytest.fixture(scope="module")
def second(
    production: Production,
    postgres: LocalPostgres,
    migrated_template: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Production]:
    """The second region: set up with the commands of docs/scaling.md, removed afterwards."""
    folder = tmp_path_factory.mktemp("second-region")
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(
            f"CREATE DATABASE {DATABASE} TEMPLATE {migrated_template} STRATEGY file_copy"
        )
    region = SecondRegion(production.api, postgres.url(DATABASE), folder)
    file = folder / "prefect.yaml"
    file.write_text(_two_regions())
    with ExitStack() as running:
        region.shell("work-pool", "create", POOL, "--type", "process")
        running.callback(region.http.delete, f"/work_pools/{POOL}")
        region.shell("deploy", "--prefect-file", str(file), "--name", NAME)
        running.callback(region.http.delete, f"/deployments/{region.deployment['id']}")
        region.pause_schedules()
        running.enter_context(_worker(region, folder / "worker.log"))
        yield region


def _worker(region: Production, log: Path) -> AbstractContextManager[Service]:
    return service(
        "worker of the second region",
        (sys.executable, "-m", "prefect", "worker", "start", "--pool", POOL),
        log=log,
        environment=region.environment,
    )


@pytest.fixture
async def platform_b(second: Production) -> AsyncIterator[Sites]:
    """The second platform's table of sites."""
    async with database(second.database_url) as engine:
        yield Sites(engine)


async def test_each_region_sweeps_refuses_and_counts_for_itself(
    production: Production, platform: Sites, second: Production, platform_b: Sites
) -> None:
    """One refuses and refuses again; the other reaps meanwhile, and its count begins at one."""
    await platform.add_many(26)
    await platform_b.add_many(2, first=101)
    refused, reaped = await asyncio.gather(production.sweep(), second.sweep())
    assert (refused["state_name"], reaped["state_name"]) == ("Refused", "Reaped")
    assert await platform.ledger() == []
    assert await platform_b.ledger() == [101, 102]

    await platform_b.add_many(26, first=201)
    again, first = await asyncio.gather(production.sweep(), second.sweep())
    assert (again["state_name"], first["state_name"]) == ("Refused", "Refused")
    assert re.search(r"Refusal \d+ in a row", again["state"]["message"])
    assert "The sweep before it did not refuse" in first["state"]["message"]

    elsewhere = await second.sweep(approve_refusal=again["id"])
    assert elsewhere["state_name"] == "Failed"
    assert "left no refusal in this database" in elsewhere["state"]["message"]
    assert await platform_b.ledger() == [101, 102]
    assert await platform.ledger() == []
