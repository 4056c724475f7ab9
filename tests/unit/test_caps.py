"""The refusal as a pure decision."""

import pytest

from provisioning.errors import CapExceeded
from provisioning.sweep.caps import Caps, check

CAPS = Caps(per_run=25, per_hour=100)


@pytest.mark.parametrize("found", [0, 1, 24, 25])
def test_up_to_the_cap_a_sweep_acts(found: int) -> None:
    check(found, 0, CAPS)


@pytest.mark.parametrize("found", [26, 27, 5_000])
def test_one_more_than_the_cap_refuses_all_of_them(found: int) -> None:
    with pytest.raises(CapExceeded) as refusal:
        check(found, 0, CAPS)
    assert (refusal.value.found, refusal.value.cap) == (found, 25)
    assert not refusal.value.per_hour
    assert str(refusal.value) == f"{found:,} stuck sites, over the cap of 25 a run"


def test_exactly_the_hourly_cap_acts_and_one_more_refuses() -> None:
    check(20, 80, CAPS)
    with pytest.raises(CapExceeded) as refusal:
        check(20, 81, CAPS)
    assert refusal.value.per_hour
    assert refusal.value.cap == 100
    assert "81 reaped in the last hour" in str(refusal.value)


def test_the_run_cap_is_named_first_where_both_are_passed() -> None:
    with pytest.raises(CapExceeded) as refusal:
        check(26, 100, CAPS)
    assert not refusal.value.per_hour


def test_a_sweep_that_found_nothing_is_never_refused() -> None:
    check(0, 1_000, CAPS)


def test_an_approved_sweep_knows_no_hourly_cap() -> None:
    check(5_000, 1_000, Caps(per_run=5_000, per_hour=None))
