"""What becomes of a candidate, as a pure decision over its stamps."""

import pytest

from provisioning.outcomes import Outcome, Standing, moved_on

A, B = "2025-01-15T14:00:00Z", "2025-01-15T15:29:00Z"


@pytest.mark.parametrize(
    ("now", "outcome"),
    [
        (Standing(A, completed=False, failed=False), None),
        (Standing(A, completed=True, failed=False), Outcome.FINISHED),
        (Standing(A, completed=False, failed=True), Outcome.ALREADY_FAILED),
        (Standing(A, completed=True, failed=True), Outcome.FINISHED),
        (Standing(B, completed=False, failed=False), Outcome.RESTARTED),
        (Standing(B, completed=True, failed=False), Outcome.RESTARTED),
        (Standing(None, completed=False, failed=False), Outcome.RESTARTED),
        (None, Outcome.VANISHED),
    ],
)
def test_how_an_attempt_leaves_the_flight(now: Standing | None, outcome: Outcome | None) -> None:
    assert moved_on(now, A) is outcome
