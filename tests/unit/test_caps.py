"""The refusal as a pure decision."""

from datetime import UTC, datetime

import pytest

from provisioning.errors import CapExceeded
from provisioning.sweep.caps import Caps, Standing, check

CAPS = Caps(per_run=25, per_hour=100)
STANDING = Standing(datetime(2025, 1, 15, 14, 5, tzinfo=UTC), cap=25)


def refusal(
    found: int, in_flight: int, hour: int, caps: Caps = CAPS, standing: Standing | None = None
) -> CapExceeded:
    with pytest.raises(CapExceeded) as raised:
        check(found, in_flight, hour, caps, standing)
    return raised.value


@pytest.mark.parametrize("found", [0, 1, 24, 25])
def test_up_to_the_cap_a_sweep_acts(found: int) -> None:
    check(found, found, 0, CAPS)


@pytest.mark.parametrize("found", [26, 27, 5_000])
def test_one_more_than_the_cap_refuses_all_of_them(found: int) -> None:
    refused = refusal(found, found, 0)
    assert (refused.found, refused.cap) == (found, 25)
    assert not refused.per_hour
    assert str(refused) == f"{found:,} stuck sites, over the cap of 25 a run"


def test_exactly_the_hourly_cap_acts_and_one_more_refuses() -> None:
    check(20, 20, 80, CAPS)
    refused = refusal(20, 20, 81)
    assert refused.per_hour
    assert refused.cap == 100
    assert "81 reaped in the last hour" in str(refused)


def test_the_run_cap_is_named_first_where_both_are_passed() -> None:
    assert not refusal(26, 26, 100).per_hour


def test_a_sweep_that_found_nothing_is_never_refused() -> None:
    check(0, 0, 1_000, Caps(25, 100, share=1), STANDING)


def test_an_approved_sweep_knows_no_hourly_cap_and_no_share() -> None:
    check(5_000, 5_000, 1_000, Caps(per_run=5_000))


@pytest.mark.parametrize(
    ("found", "in_flight", "share", "refused"),
    [
        (20, 20, 50, True),  # a total outage of a small platform
        (10, 20, 50, False),  # exactly the share
        (11, 20, 50, True),
        (5, 5, 99, True),
        (4, 4, 1, False),  # too few to tell an outage by
        (5, 500, 1, False),
        (6, 500, 1, True),
        (25, 25, 100, False),  # no part is more than the whole
        (20, 20, None, False),
    ],
)
@pytest.mark.guarantee(
    fault="a total outage on a platform too small to reach the cap (G27)",
    holds="refused, by `max_reap_share`",
)
def test_more_than_the_share_of_those_in_flight_refuses_from_five_on(
    found: int, in_flight: int, share: int | None, refused: bool
) -> None:
    caps = Caps(25, 100, share)
    if not refused:
        check(found, in_flight, 0, caps)
        return
    told = refusal(found, in_flight, 0, caps=caps)
    assert f"{found} stuck sites of {in_flight} in flight, over the share of {share} %" == str(told)
    assert 0 < told.cap < found
    assert not told.per_hour


@pytest.mark.parametrize("found", [13, 25])
def test_a_refusal_stands_above_half_of_its_cap(found: int) -> None:
    refused = refusal(found, found, 0, standing=STANDING)
    assert str(refused) == f"{found} stuck sites, and a refusal of 2025-01-15 14:05 UTC stands"
    assert (refused.found, refused.cap) == (found, 25)


@pytest.mark.parametrize("found", [0, 1, 12])
def test_at_half_of_its_cap_a_sweep_acts_again(found: int) -> None:
    check(found, found, 0, CAPS, STANDING)


@pytest.mark.parametrize(("cap", "acts_at"), [(1, 0), (2, 1), (3, 1), (25, 12), (26, 13)])
def test_half_of_a_cap_is_never_more_than_half(cap: int, acts_at: int) -> None:
    assert Standing(STANDING.since, cap).acts_at == acts_at


def test_a_refusal_that_stands_is_named_before_the_hour() -> None:
    assert not refusal(20, 20, 100, standing=STANDING).per_hour
    assert refusal(12, 12, 100, standing=STANDING).per_hour
