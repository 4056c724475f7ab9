"""The peers do to the sites what our sweep does: a contest of the same work."""

import pytest

from tests.benchmarks.peers.programs.one_sweep import CAP, sweep
from tests.sites import Sites, stamp


async def test_the_stuck_are_failed_with_their_ledger_rows_and_nothing_else_is_touched(
    sites: Sites, platform_url: str
) -> None:
    await sites.add_many(CAP)
    await sites.add(
        101, {"provision": {"started_at": stamp()}, "health_check": {"completed_at": 1}}
    )
    await sites.add(
        102, {"provision": {"started_at": stamp()}, "terminal_failure": {"by": "chain"}}
    )
    await sites.add(103, {"provision": {"started_at": "yesterday"}})
    assert sweep(platform_url) == CAP
    assert await sites.failed() == [*range(1, CAP + 1), 102]
    ledger = await sites.rows("SELECT site_id, attempt, source FROM terminal_failures")
    started = await sites.rows("SELECT id, metadata #>> '{provision,started_at}' FROM sites")
    assert {(row.site_id, row.attempt) for row in ledger} <= {(str(a), b) for a, b in started}
    assert len(ledger) == CAP
    assert sweep(platform_url) == 0


async def test_one_more_than_the_cap_is_refused(sites: Sites, platform_url: str) -> None:
    await sites.add_many(CAP + 1)
    with pytest.raises(RuntimeError, match="nothing was changed"):
        sweep(platform_url)
    assert await sites.failed() == []
