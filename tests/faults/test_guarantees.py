"""The table of guarantees is what the tests say, today."""

import pytest

from tests.guarantees import PAGE, generated


@pytest.mark.timeout(180)
def test_the_table_is_what_the_marks_say() -> None:
    assert PAGE.read_text() == generated(), "run `python -m tests.guarantees`"


def test_each_guard_that_was_taken_out_is_in_the_table() -> None:
    table = PAGE.read_text()
    for guard in (
        "conditional write",
        "ledger key",
        "no-cache tasks",
        "bounded sends",
        "in-flight check of the chain",
    ):
        assert f"{guard}:" in table, guard
