"""Tests through a real PgBouncer, as Debian ships it, in both of its usual modes."""

from collections.abc import Iterator

import pytest

from deployments.postgres import LocalPostgres
from provisioning.settings import settings
from tests.chain.conftest import forge, provision, upstream_environment  # noqa: F401
from tests.flow.conftest import sweep  # noqa: F401
from tests.pooler.bouncer import Bouncer, bouncer


@pytest.fixture(scope="module", params=["transaction", "session"])
def pooler(request: pytest.FixtureRequest, postgres: LocalPostgres) -> Iterator[Bouncer]:
    """A pooler in that mode, with few connections to the server."""
    with bouncer(postgres, request.param, "default_pool_size = 12") as running:
        yield running


@pytest.fixture
def pooled_environment(
    pooler: Bouncer, database_url: str, worker_environment: pytest.MonkeyPatch
) -> Iterator[pytest.MonkeyPatch]:
    """The environment of a worker that reaches the test's database through the pooler."""
    worker_environment.setenv("PROVISION_DATABASE_URL", pooler.through(database_url))
    worker_environment.setenv("PROVISION_DATABASE_POOLED", "true")
    settings.cache_clear()
    yield worker_environment
    settings.cache_clear()
