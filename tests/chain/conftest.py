"""Chain tests: the real flow, a real PostgreSQL, a real Prefect server, and an upstream."""

from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from prefect.client.schemas.objects import State
from pydantic import SecretStr

from flows.provision_site import provision_site
from provisioning.chain import polling
from provisioning.chain.api import Api
from provisioning.chain.forge import Forge, ForgeV1
from provisioning.chain.upstream import Upstream
from tests.chain.forge_server import ORGANIZATION, SERVER, TOKEN, ForgeServer, ForgeV1Server
from tests.chain.stub_server import StubServer, serving
from tests.sites import Sites, site

Provision = Callable[..., Coroutine[Any, Any, State[Any]]]


BOTH_VERSIONS = pytest.mark.parametrize("forge", [ForgeServer, ForgeV1Server], indirect=True)
"""A test that asks for `forge` runs against either version of its API."""


@pytest.fixture
def forge(request: pytest.FixtureRequest) -> Iterator[StubServer]:
    """An upstream that makes every site at once; Forge as it is today, unless a test says so."""
    with serving(getattr(request, "param", ForgeServer)) as forge:
        yield forge


def client_of(forge: StubServer, token: str = TOKEN) -> Upstream:
    """A client of that upstream, in the version that it speaks."""
    if isinstance(forge, ForgeV1Server):
        return ForgeV1(Api(f"{forge.url}/api/v1", SecretStr(token)), SERVER)
    return Forge(Api(f"{forge.url}/api", SecretStr(token)), ORGANIZATION, SERVER)


@pytest.fixture
def client(forge: StubServer) -> Upstream:
    """A client of the test's upstream."""
    return client_of(forge)


@pytest.fixture
def upstream_environment(
    forge: StubServer, worker_environment: pytest.MonkeyPatch
) -> pytest.MonkeyPatch:
    """The environment of a worker that provisions through that upstream."""
    first_version = isinstance(forge, ForgeV1Server)
    worker_environment.setenv(
        "PROVISION_UPSTREAM_URL", f"{forge.url}/api/v1" if first_version else f"{forge.url}/api"
    )
    if not first_version:
        worker_environment.setenv("PROVISION_UPSTREAM_ORGANIZATION", ORGANIZATION)
    worker_environment.setenv("PROVISION_UPSTREAM_TOKEN", TOKEN)
    worker_environment.setenv("PROVISION_UPSTREAM_SERVER", SERVER)
    worker_environment.setenv("PROVISION_HEALTH_URL", forge.health_url)
    return worker_environment


@pytest.fixture
def provision(prefect_api: str, upstream_environment: pytest.MonkeyPatch) -> Provision:
    """Provision one site of the test's database, and give the run's final state."""
    upstream_environment.setattr(polling, "PAUSES", (0.05,))

    async def run(site_id: int = 1, **parameters: Any) -> State[Any]:
        return await provision_site(site(site_id), **parameters, return_state=True)

    return run


class Clock:
    """The database's clock as the chain reads it, for a test to set."""

    def __init__(self, sites: Sites) -> None:
        self.sites = sites

    async def run_ahead(self, factor: int) -> None:
        """From now on the chain's clock runs this many times as fast."""
        await self.sites.run(
            "CREATE OR REPLACE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql"
            " VOLATILE AS $f$ SELECT base + (pg_catalog.clock_timestamp() - base) * "
            f"{factor} FROM (SELECT timestamptz '"
            f"{(await self.sites.rows('SELECT pg_catalog.clock_timestamp()'))[0][0].isoformat()}"
            "' AS base) AS b $f$"
        )
        await self._look_in_public_first()

    async def stand_still(self, instant: str) -> None:
        """From now on the chain's clock shows this instant."""
        await self.sites.run(
            "CREATE OR REPLACE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql"
            f" VOLATILE AS $f$ SELECT timestamptz '{instant}' $f$"
        )
        await self._look_in_public_first()

    async def _look_in_public_first(self) -> None:
        name = (await self.sites.rows("SELECT current_database()"))[0][0]
        await self.sites.run(f"ALTER DATABASE {name} SET search_path = public, pg_catalog")
        await self.sites.engine.dispose()


@pytest.fixture
def clock(sites: Sites) -> Clock:
    """The database's clock."""
    return Clock(sites)
