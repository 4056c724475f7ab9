"""Thousands of attempts that many hands fight over: each ends one way. `soak.py` runs more."""

import pytest

from tests.faults.contest import contest

ATTEMPTS = [1_000, pytest.param(10_000, marks=pytest.mark.long)]


@pytest.mark.e2e
@pytest.mark.timeout(600)
@pytest.mark.guarantee(
    fault=(
        "10,000 attempts fought over by reapers, chains, blind writers and re-starters on "
        "real connections"
    ),
    holds=(
        "one outcome an attempt, one ledger row a failed attempt, one notice of each kind; "
        "no document completed and failed at once, not even where the platform saves whole "
        "documents"
    ),
    guard=(
        "conditional write: with its conditions in a subquery of the UPDATE, a site is "
        "reaped twice in the first round; ledger key: without it and its ON CONFLICT, 'a "
        "second row, or a second notice'"
    ),
)
@pytest.mark.parametrize("attempts", ATTEMPTS)
async def test_thousands_of_attempts_end_one_way_each(database_url: str, attempts: int) -> None:
    async with contest(database_url, seed=20250115) as races:
        await races.run(attempts)
    print(races)
    for happened in (
        "watchdog reaped",
        "watchdog already_failed",
        "watchdog finished",
        "watchdog restarted",
        "chain reaped",
        "chain completed",
        "chain came too late to complete",
        "restarted",
        "saved a stale document",
    ):
        assert races.told[happened] > attempts / 200, f"too seldom to prove anything: {happened}"
