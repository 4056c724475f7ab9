"""Which of two clocks is right, by a third one."""

from datetime import timedelta

import pytest

from flows.ui.clock import agreement

DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("database", "server", "said"),
    [
        (DAY, timedelta(seconds=2), "agrees with the worker's, so look at the database's"),
        (DAY, DAY - timedelta(minutes=1), "agrees with the database's, so look at the worker's"),
        (-DAY, -DAY, "agrees with the database's, so look at the worker's"),
        (DAY, -DAY, "agrees with neither"),
    ],
)
def test_the_prefect_servers_clock_tells(database: timedelta, server: timedelta, said: str) -> None:
    assert said in agreement(database, server)
