"""What becomes of a candidate, as a pure decision over its stamps."""

import pytest

from provisioning.site_state import Outcome, Stamps, moved_on

A, B = "2025-01-15T14:00:00Z", "2025-01-15T15:29:00Z"


@pytest.mark.parametrize(
    ("now", "outcome"),
    [
        (Stamps(A, completed=False, failed=False), None),
        (Stamps(A, completed=True, failed=False), Outcome.FINISHED),
        (Stamps(A, completed=False, failed=True), Outcome.ALREADY_FAILED),
        (Stamps(A, completed=True, failed=True), Outcome.FINISHED),
        (Stamps(B, completed=False, failed=False), Outcome.RESTARTED),
        (Stamps(B, completed=True, failed=False), Outcome.RESTARTED),
        (Stamps(None, completed=False, failed=False), Outcome.RESTARTED),
        (None, Outcome.VANISHED),
    ],
)
def test_how_an_attempt_leaves_the_flight(now: Stamps | None, outcome: Outcome | None) -> None:
    assert moved_on(now, A) is outcome
