"""Who started a run, and what it is called."""

import re
from functools import cache
from typing import Any

from coolname.data import config as coolname
from prefect.context import FlowRunContext
from prefect.runtime import flow_run

AUTO_SCHEDULED = "auto-scheduled"
"""The tag that Prefect gives to what a schedule starts."""

# The name that the form of the UI suggests, such as Handmade-Zebra.
_SUGGESTED = re.compile(
    "(Awesome|Rustic|Small|Gorgeous|Fantastic|Sleek|Intelligent|Unbranded|Refined|Licensed|Generic"
    "|Practical|Ergonomic|Handcrafted|Tasty|Handmade|Incredible)-[A-Z][A-Za-z -]{0,5}"
)


def by_person() -> bool:
    """Whether a person started this run: no schedule, no automation and no other flow did.

    What a scheduler outside of Prefect starts looks like a person's; the tag `auto-scheduled`
    tells that it is none.
    """
    context = FlowRunContext.get()
    run = context.flow_run if context else None
    return run is None or not (
        run.auto_scheduled
        or AUTO_SCHEDULED in run.tags
        or run.parent_task_run_id
        or (run.created_by is not None and run.created_by.type == "AUTOMATION")
    )


def name_for_list() -> str:
    """What the list of runs shows of a run: the name that somebody typed, else what it is."""
    name = flow_run.name
    return what_it_is() if name is None or is_made_up(name) else name


def is_made_up(name: str) -> bool:
    """Whether Prefect made the name up, as it does where nobody typed one."""
    return bool(_SUGGESTED.fullmatch(name)) or _vocabulary().issuperset(name.split("-"))


@cache
def _vocabulary() -> frozenset[str]:
    """The words of which Prefect's server and its client make names, such as `brave-impala`."""
    groups: Any = coolname
    return frozenset(word for group in groups.values() for word in group.get("words", []))


def what_it_is() -> str:
    """What a run is: scheduled, by hand, a dry run, an approval."""
    when = f"{flow_run.scheduled_start_time:%Y-%m-%d %H:%M} UTC"
    chosen = flow_run.parameters
    if chosen.get("dry_run"):
        return f"dry run {when}"
    if chosen.get("approve_refusal"):
        return f"approval of {str(chosen['approve_refusal'])[:8]} {when}"
    return f"{'sweep by hand' if by_person() else 'sweep'} {when}"
