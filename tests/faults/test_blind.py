"""A sweep that can't see ends Failed and says why, as the role of the README, in a whole run."""

from collections.abc import AsyncIterator

import pytest
from prefect.client.schemas.objects import StateType

from provisioning.settings import settings
from tests.database.test_permissions import rights_of_the_readme
from tests.flow.conftest import Sweep
from tests.flow.traces import message, nothing_written
from tests.sites import Sites


@pytest.fixture
async def role(
    sites: Sites, database_url: str, worker_environment: pytest.MonkeyPatch
) -> AsyncIterator[None]:
    """The worker connects as that role."""
    await sites.run("DROP ROLE IF EXISTS reaper")
    for statement in rights_of_the_readme():
        await sites.run(statement)
    worker_environment.setenv(
        "PROVISION_DATABASE_URL", database_url.replace("//postgres@", "//reaper@")
    )
    settings.cache_clear()
    yield
    await sites.run("DROP OWNED BY reaper")


@pytest.mark.parametrize(
    ("blinds", "said"),
    [
        (["ALTER TABLE sites ENABLE ROW LEVEL SECURITY"], "applies to reaper on sites"),
        (
            [
                "ALTER TABLE sites ENABLE ROW LEVEL SECURITY",
                "CREATE POLICY reads ON sites FOR SELECT USING (true)",
            ],
            "BYPASSRLS",
        ),
        (["ALTER TABLE notices ENABLE ROW LEVEL SECURITY"], "applies to reaper on notices"),
        (
            ["CREATE SCHEMA platform", "ALTER TABLE sites SET SCHEMA platform"],
            "There is platform.sites",
        ),
        (['ALTER TABLE sites RENAME TO "Sites"'], 'There is public."Sites"'),
        (
            ["ALTER TABLE sites RENAME TO all_sites", "CREATE VIEW sites AS TABLE all_sites"],
            "is a view",
        ),
        (
            [
                "DROP INDEX sites_provision_in_flight",
                "CREATE INDEX sites_provision_in_flight ON sites (id)",
            ],
            "another one than this program's",
        ),
        (
            [
                "CREATE OR REPLACE FUNCTION iso_instant(t text) RETURNS timestamptz "
                "LANGUAGE sql IMMUTABLE AS 'SELECT NULL::timestamptz'"
            ],
            "the function iso_instant",
        ),
        (["REVOKE SELECT ON sites FROM reaper"], "GRANT SELECT (metadata) ON sites TO reaper;"),
        (["REVOKE UPDATE (metadata) ON sites FROM reaper"], "GRANT UPDATE (metadata) ON sites"),
    ],
    ids=[
        "row security",
        "row security and a policy to read",
        "row security on the notices",
        "another schema",
        "quotes",
        "a view",
        "another index",
        "another function",
        "no right to read",
        "no right to write",
    ],
)  # fmt: skip
@pytest.mark.guarantee(
    fault="an old site, and something that blinds the sweep to it or ties its hands",
    holds="the whole run ends Failed with what to do, and nothing is written",
    guard="without the preflight, Clean on another function, Reaped on another index",
)
async def test_a_blinded_sweep_fails_and_says_by_what(
    role: None, sweep: Sweep, sites: Sites, blinds: list[str], said: str
) -> None:
    await sites.add_started(1)
    for statement in blinds:
        await sites.run(statement)
    state = await sweep()
    assert (state.name, state.type) == ("Failed", StateType.FAILED)
    assert message(state).startswith("Could not look: ")
    assert said in message(state)
    if "platform" not in said and '"' not in said:
        assert await nothing_written(sites)
