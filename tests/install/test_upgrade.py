"""From the first version to this one: on its database, and beside a worker of it that still runs.

`first_version/` holds what version 0.1.0 left: the database that its migrations made and that its
sweeps and its chain filled, and the statements that one more of its sweeps sent, for site
3000000006, which was stuck, and for the notices that were owed.
"""

import json
from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest
from psycopg.rows import dict_row

from flows.reap_stuck_provisions import reap_stuck_provisions
from provisioning.settings import settings
from tests.commands import ROOT, migrate

OLD = ROOT / "tests/install/first_version"
STUCK = {3_000_000_006, 3_000_000_007, 3_000_000_008}
LEFT = """
SELECT (SELECT array_agg(ROW (site_id::text, attempt, failed_at, reason, source)::text ORDER BY id)
          FROM terminal_failures) AS ledger,
       (SELECT array_agg(ROW (id, kind, encode(body, 'hex'))::text ORDER BY id)
          FROM notices WHERE delivered_at IS NULL AND given_up_at IS NULL) AS owed,
       (SELECT count(*) FROM sweep_refusals) AS refusals,
       (SELECT array_agg(ROW (id, domain, metadata)::text ORDER BY id) FROM sites) AS sites
"""


@pytest.fixture
def upgraded(empty_database_url: str) -> Iterator[psycopg.Connection[dict[str, object]]]:
    """The database of the first version, migrated to today's head; nothing of it got lost."""
    with psycopg.connect(empty_database_url) as restoring:
        restoring.execute((OLD / "database.sql").read_text().encode())
    with psycopg.connect(empty_database_url, autocommit=True, row_factory=dict_row) as connection:
        before = connection.execute(LEFT).fetchone()
        migrate(empty_database_url)
        migrate(empty_database_url)
        assert connection.execute(LEFT).fetchone() == before
        yield connection


def failed(connection: psycopg.Connection[dict[str, object]]) -> set[int]:
    """The stuck sites that were failed: each with its mark and exactly one row in the ledger."""
    marked = {
        row["id"]
        for row in connection.execute("SELECT id FROM sites WHERE metadata ? 'terminal_failure'")
    }
    counted = connection.execute(
        "SELECT site_id::text AS id, count(*) AS n FROM terminal_failures GROUP BY 1"
    )
    ledger = {int(str(row["id"])): row["n"] for row in counted}
    assert set(ledger) == marked
    assert set(ledger.values()) == {1}
    return STUCK & set(ledger)


def old_worker_sweeps(connection: psycopg.Connection[dict[str, object]]) -> list[str]:
    """Send what the old worker sends; what the database refused, in the old worker's words."""
    refused = []
    for sent in json.loads((OLD / "statements.json").read_text()):
        parameters = {
            name: timedelta(**value) if isinstance(value, dict) else value
            for name, value in sent["parameters"].items()
        }
        try:
            connection.execute(sent["statement"], parameters)
        except psycopg.Error as error:
            refused.append(f"{sent['statement'].split()[0]}: {error}")
    return refused


def test_a_worker_of_the_first_version_does_no_harm_after_the_migration(
    upgraded: psycopg.Connection[dict[str, object]],
) -> None:
    live = "SELECT id, metadata FROM sites WHERE id NOT IN (3000000006) ORDER BY id"
    before = upgraded.execute(live).fetchall()
    print(old_worker_sweeps(upgraded))
    assert failed(upgraded) <= {3_000_000_006}
    assert upgraded.execute(live).fetchall() == before


@pytest.mark.e2e
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("prefect_api")
async def test_today_s_sweep_goes_on_where_the_old_version_stopped(
    upgraded: psycopg.Connection[dict[str, object]],
    empty_database_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PROVISION_DATABASE_URL", empty_database_url)
    settings.cache_clear()
    try:
        old_worker_sweeps(upgraded)
        state = await reap_stuck_provisions(return_state=True)
        old_worker_sweeps(upgraded)
    finally:
        settings.cache_clear()
    assert state.name in ("Reaped", "Incomplete"), state.message
    assert failed(upgraded) == STUCK, state.message
