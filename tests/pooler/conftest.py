"""Tests through a real PgBouncer as it comes, in both of its usual modes.

From 1.21 on it carries prepared statements from one session of the server to another, unless it is
told not to: with a newer one than Debian's, named in `PGBOUNCER`, the tests run both ways.
"""

from collections.abc import Iterator

import pytest

from deployments.postgres import LocalPostgres
from provisioning.settings import settings
from tests.chain.conftest import forge, provision, upstream_environment  # noqa: F401
from tests.flow.conftest import sweep  # noqa: F401
from tests.pooler.bouncer import Bouncer, bouncer, version

WITHOUT = "max_prepared_statements = 0"
KNOWS_PREPARED_STATEMENTS = (1, 21)


@pytest.fixture(scope="module", params=["transaction", "session", f"transaction, {WITHOUT}"])
def pooler(request: pytest.FixtureRequest, postgres: LocalPostgres) -> Iterator[Bouncer]:
    """A pooler in that mode, with few connections to the server."""
    mode, *more = request.param.split(", ")
    if more and version() < KNOWS_PREPARED_STATEMENTS:
        pytest.skip("this PgBouncer is older than 1.21: name a newer one in PGBOUNCER")
    with bouncer(postgres, mode, "default_pool_size = 12", *more) as running:
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
