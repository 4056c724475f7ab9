"""The parameters of the sweep: refused out of range, explained in the form. F12."""

from typing import Any

import pytest
from prefect.client.schemas.objects import StateType
from prefect.exceptions import ParameterTypeError

from flows.reap_stuck_provisions import reap_stuck_provisions
from tests.flow.conftest import Sweep
from tests.flow.traces import message
from tests.sites import Sites


@pytest.mark.parametrize(
    "wrong",
    [
        {"stuck_after_minutes": 0},
        {"stuck_after_minutes": -1},
        {"max_reap_per_run": 0},
        {"max_reap_per_hour": 0},
        {"max_reap_share": 0},
        {"max_reap_share": 101},
        {"approve_only_step": "x" * 101},
        {"note": "x" * 501},
        {"approve_refusal": "nope"},
    ],
)
async def test_a_parameter_out_of_range_is_refused_before_any_query(
    sweep: Sweep, sites: Sites, wrong: dict[str, Any]
) -> None:
    await sites.add_started(1)
    with pytest.raises((ParameterTypeError, ValueError), match=next(iter(wrong))):
        await reap_stuck_provisions(**wrong)
    state = await sweep(**wrong)
    assert state.type is StateType.FAILED
    assert next(iter(wrong)) in message(state)
    assert await sites.failed() == []


def test_the_form_shows_each_limit_and_a_help_text() -> None:
    fields = reap_stuck_provisions.parameters.properties
    assert {name: field.get("minimum") for name, field in fields.items()} == {
        "stuck_after_minutes": 1,
        "max_reap_per_run": 1,
        "max_reap_per_hour": 1,
        "max_reap_share": None,
        "approve_refusal": None,
        "approve_only_step": None,
        "note": None,
        "dry_run": None,
    }
    assert all(len(field["description"]) > 40 for field in fields.values())
