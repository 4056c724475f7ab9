"""The report of a run as Markdown: bounded in size, and nothing in it is taken for markup.

The pages are the templates beside this file. Whatever they show is escaped and cut unless a filter
here says otherwise, so that a new line of a template can't forget to.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from provisioning.errors import CapExceeded
from provisioning.outbox.dispatcher import Deliveries
from provisioning.site_state import Outcome
from provisioning.sweep.caps import Caps
from provisioning.sweep.grouping import by_step, span
from provisioning.sweep.last_hour import PastSweep
from provisioning.sweep.result import Ending, NoticesSent, Result, is_trouble
from provisioning.sweep.snapshot import Candidate, Snapshot
from provisioning.text import cell, duration

ROWS = 200
"""The most rows of a table. With them a report stays well under 200 kB."""


@dataclass(frozen=True)
class Neighbours:
    """The sweeps of the same deployment before and after one that failed, as far as is known.

    Attributes:
        looked_at: when the last one ended that could look.
        ended: the name of its state.
        next_at: when the next run is due.
    """

    looked_at: datetime | None = None
    ended: str = ""
    next_at: datetime | None = None


def report(
    ending: str,
    message: str,
    snapshot: Snapshot,
    results: Sequence[Result],
    *,
    approves: str | None,
    notices: NoticesSent,
    caps: Caps | None = None,
) -> str:
    """The report of a run that looked and acted, or rehearsed.

    Args:
        approves: the address of the refused run that this one lets through.
        caps: shown beside what was reaped at the busiest; None for a run with caps of its own.
    """
    reaped = [result.candidate for result in results if result.outcome is Outcome.REAPED]
    return _render(
        "sweep",
        ending=ending,
        incomplete=ending == Ending.INCOMPLETE,
        message=message,
        snapshot=snapshot,
        results=sorted(results, key=lambda result: not is_trouble(result, snapshot)),
        reaped=by_step(reaped),
        approves=approves,
        caps=caps,
        deliveries=_looked_up(notices),
    )


def refusal_report(
    ending: Ending,
    message: str,
    snapshot: Snapshot,
    refusal: CapExceeded,
    *,
    run_id: UUID | None,
    form: str | None,
    deployment: str,
    hour: Sequence[PastSweep],
    notices: NoticesSent,
    caps: Caps | None = None,
) -> str:
    """The report of a run that refused, or rehearsed that: its evidence, and how to let it through.

    Args:
        run_id: the value that approves this refusal; None where it can't be approved.
        form: the address of the form with that value filled in; None without a deployment.
        deployment: the deployment that sweeps here, as `flow/deployment`.
        caps: shown beside what was reaped at the busiest.
        hour: the sweeps that used the hourly cap up, where that was the one.
    """
    return _render(
        "refused",
        ending=ending,
        message=message,
        snapshot=snapshot,
        refusal=refusal,
        run_id=run_id,
        form=form,
        deployment=deployment,
        hour=hour,
        caps=caps,
        steps=snapshot.groups.steps,
        starts=snapshot.groups.starts,
        deliveries=_looked_up(notices),
    )


def failure_report(
    ending: str,
    message: str,
    around: Neighbours,
    *,
    approval: bool,
    cut_off: bool = False,
    snapshot: Snapshot | None = None,
    notices: NoticesSent = None,
) -> str:
    """The report of a run that could not look, or not do what a person asked for.

    Args:
        approval: whether a person asked it to let a refusal through, which nothing tries again.
        cut_off: whether it was ended in the middle: its time was up, or something was raised.
        snapshot: what it saw all the same.
    """
    return _render(
        "failed",
        ending=ending,
        message=message,
        around=around,
        approval=approval,
        cut_off=cut_off,
        snapshot=snapshot,
        deliveries=_looked_up(notices),
    )


def _looked_up(notices: NoticesSent) -> Deliveries | None:
    return notices if isinstance(notices, Deliveries) else None


def _shown(value: Any) -> Markup:
    """What a template shows: one line, 100 characters, no markup; its own parts as they are."""
    return value if isinstance(value, Markup) else Markup(cell(str(value)))  # noqa: S704


def _second(instant: datetime) -> str:
    return f"{instant:%Y-%m-%d %H:%M:%S}"


def _step(site: Candidate, snapshot: Snapshot) -> str:
    """Where a site stands and for how long: "dns for 35 min"."""
    if not site.step or site.step_at is None or site.step_at > snapshot.looked_at:
        return site.step or "–"
    return f"{site.step} for {duration(snapshot.looked_at - site.step_at)}"


_PAGES = Environment(
    loader=PackageLoader("provisioning.sweep"),
    autoescape=True,  # so that a macro's result is known as markup; `_shown` does the escaping
    finalize=_shown,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_PAGES.globals["ROWS"] = ROWS
_PAGES.filters |= {
    "clock": lambda instant: f"{instant:%H:%M:%S}",
    "duration": duration,
    "link": Markup,  # an address that this program made
    "number": lambda number: f"{number:,}",
    "step": lambda site, snapshot: Markup(cell(_step(site, snapshot), 130)),  # noqa: S704
    "second": _second,
    "span": lambda group: span(group.first, group.last).removeprefix("at "),
    "upto": lambda text, limit: Markup(cell(str(text), limit)),  # noqa: S704
    "verbatim": Markup,  # for a block of code, where nothing is markup
}


def _render(page: str, **facts: Any) -> str:
    return _PAGES.get_template(f"{page}.md.jinja").render(facts)
