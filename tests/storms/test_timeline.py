"""An outage of twelve hours: what each sweep does, and whom it wakes."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.sweep.alerts import Moment, Trouble
from provisioning.sweep.result import Ending
from tests.commands import ROOT
from tests.storms.platform import Platform, Swept

INTERVAL = timedelta(minutes=5)


@dataclass(frozen=True)
class Line:
    """A sweep of the timeline, or an approval, with what happened right before it."""

    at: timedelta
    what: str
    before: str
    swept: Swept

    def __str__(self) -> str:
        hours, seconds = divmod(int(self.at.total_seconds()), 3600)
        alerts = ", ".join(f"{alert.moment}: {alert.trouble}" for alert in self.swept.alerts)
        cells = [
            f"{hours:02}:{seconds // 60:02}",
            self.before,
            self.what,
            f"{self.swept.found}",
            self.swept.ending.value,
            f"{len(self.swept.reaped)}",
            re.sub(r" of \d{4}-\d\d-\d\d [\d:]+ UTC", "", self.swept.why),
            alerts,
        ]
        return f"| {' | '.join(cells)} |"


PAGE = ROOT / "docs/operating.md"

HEAD = (
    "| time | before it | run | found | ended | reaped | why | alert |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- |"
)


async def outage(engine: AsyncEngine) -> list[Line]:
    """Twelve hours and a half of a platform whose step dns is broken from 00:30 to 10:30.

    Each five minutes ten sites begin. While dns is up they finish, and what was left behind with
    them; while it is down they stay. At 02:15 support finishes some by hand, so that fewer than the
    cap are stuck. At 06:00 a person approves what was listed at 05:00.
    """
    platform = Platform(engine, datetime.now(UTC) - timedelta(hours=14))
    start, lines = platform.now, list[Line]()
    of_five: Swept | None = None
    for number in range(150):
        at = number * INTERVAL
        before = []
        down = timedelta(minutes=30) <= at < timedelta(hours=10, minutes=30)
        if not down:
            await platform.finishes(60)
            before += ["dns is up"] if at == timedelta(hours=10, minutes=30) else []
        elif at == timedelta(minutes=30):
            before.append("dns breaks")
        if at == timedelta(hours=2, minutes=15):
            await platform.finishes(50)
            before.append("support finishes 50")
        if at == timedelta(hours=6):
            assert of_five
            approved = await platform.sweeps(approves=of_five.run)
            lines.append(Line(at, "approval", "a person looked", approved))
        swept = await platform.sweeps()
        of_five = swept if at == timedelta(hours=5) else of_five
        lines.append(Line(at, "sweep", ", ".join(before), swept))
        await platform.begins(10)
        await platform.passes(INTERVAL)
    assert platform.now - start == 150 * INTERVAL
    return lines


def shown(lines: list[Line]) -> list[Line]:
    """Without the sweeps that did the same as the one before and woke nobody."""
    kept = [lines[0]]
    for before, line in pairwise(lines):
        same = line.swept.ending is before.swept.ending and line.what == before.what
        reason = line.swept.why.split(" ")[3:] == before.swept.why.split(" ")[3:]
        if line.before or line.swept.alerts or not (same and reason) or line is lines[-1]:
            kept.append(line)
    return kept


@pytest.mark.e2e
@pytest.mark.timeout(600)
@pytest.mark.guarantee(
    fault="an outage of twelve hours, with one approval in the middle (G26, G30)",
    holds="nothing is reaped behind a person's back; alerts at the beginning, every six hours and "
    "at the end",
    guard=(
        "with a cap for half of it, a sweep reaps the 20 that a refusal listed; with an alert at "
        "each refusal, 118 of them; where a refusal ends the alerts of refusals, 59 all-clears"
    ),
)
async def test_an_outage_of_twelve_hours(engine: AsyncEngine) -> None:
    lines = await outage(engine)
    assert "\n".join([HEAD, *map(str, shown(lines))]) in PAGE.read_text()
    sweeps = [line for line in lines if line.what == "sweep"]
    refused = [line for line in sweeps if line.swept.ending is Ending.REFUSED]
    (approval,) = [line for line in lines if line.what == "approval"]
    assert len(approval.swept.reaped) > 25
    alerts = [alert for line in lines for alert in line.swept.alerts]
    assert {alert.trouble for alert in alerts} == {Trouble.REFUSED}
    assert [alert.moment for alert in alerts].count(Moment.OVER) <= 2
    assert len(alerts) < len(refused) / 10
    for before, line in pairwise(lines):
        behind = before.swept.ending is Ending.REFUSED and line.what == "sweep"
        assert not (behind and line.swept.found > 12 and line.swept.reaped)
    assert sweeps[-1].swept.ending is Ending.CLEAN
