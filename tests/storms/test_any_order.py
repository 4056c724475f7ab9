"""No order of sweeps, sites and people reaps a listed site of a standing refusal by itself."""

import asyncio
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from provisioning.database import database
from provisioning.sweep.caps import Caps
from provisioning.sweep.result import Ending
from tests.storms.platform import Platform, Swept

CAPS = Caps(per_run=6, per_hour=1_000, share=80)


class Storm(RuleBasedStateMachine):
    """A small platform with a cap of six, and what a model of our own says of its refusals."""

    url: str

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.running = AsyncExitStack()
        self.engine = self.do(self.running.enter_async_context(database(self.url)))
        start = datetime.now(UTC) - timedelta(days=20)
        self.platform = Platform(self.engine, start, CAPS)
        self.refused: list[UUID] = []
        self.held: set[str] = set()
        """What standing refusals listed."""

    def do(self, action: Any) -> Any:
        return self.runner.run(action)

    def teardown(self) -> None:
        self.do(self.running.aclose())
        self.runner.close()

    @initialize()
    def an_empty_platform(self) -> None:
        self.do(self.platform.sites.run("TRUNCATE sites, terminal_failures, notices CASCADE"))
        self.do(self.platform.sites.run("TRUNCATE sweep_refusals"))

    @rule(number=st.integers(1, 9), old=st.booleans())
    def sites_begin(self, number: int, old: bool) -> None:
        self.do(self.platform.begins(number, ago=timedelta(minutes=45 if old else 0)))

    @rule(number=st.integers(1, 9))
    def sites_finish(self, number: int) -> None:
        self.do(self.platform.finishes(number))

    @rule(minutes=st.sampled_from([5, 30, 120]))
    def time_passes(self, minutes: int) -> None:
        self.do(self.platform.passes(timedelta(minutes=minutes)))

    @rule()
    def the_schedule_sweeps(self) -> None:
        swept: Swept = self.do(self.platform.sweeps())
        if swept.ending is not Ending.REFUSED:
            assert not swept.reaped & self.held or swept.found <= CAPS.per_run // 2
            self.held.clear()
            return
        assert self.held or " stands" not in swept.why, "nothing stands any longer"
        self.refused.append(swept.run)
        self.held |= swept.listed

    @rule(cap=st.sampled_from([3, 6, 50]))
    def a_person_sweeps(self, cap: int) -> None:
        swept: Swept = self.do(self.platform.sweeps(scheduled=False, caps=Caps(cap)))
        if swept.ending is Ending.REFUSED:
            self.refused.append(swept.run)
        else:
            self.held.clear()

    @precondition(lambda self: self.refused)
    @rule(data=st.data())
    def a_person_presses_retry(self, data: st.DataObject) -> None:
        run = data.draw(st.sampled_from(self.refused))
        if self.do(self.platform.sweeps(run=run)).ending is not Ending.REFUSED:
            self.held.clear()

    @precondition(lambda self: self.refused)
    @rule(data=st.data())
    def a_person_approves(self, data: st.DataObject) -> None:
        recent = self.do(
            self.platform.sites.rows(
                "SELECT flow_run_id FROM sweep_refusals WHERE refused_at > now() - interval '23 h'"
            )
        )
        known = [run for run in self.refused if run in {row[0] for row in recent}]
        if known:
            self.do(self.platform.sweeps(approves=data.draw(st.sampled_from(known))))
            self.held.clear()

    @invariant()
    def the_ledger_holds_each_attempt_once(self) -> None:
        ledger = self.do(self.platform.sites.ledger())
        assert len(ledger) == len(set(ledger))


@pytest.mark.parametrize("stories", [15, pytest.param(40, marks=pytest.mark.long)])
@pytest.mark.e2e
@pytest.mark.timeout(600)
@pytest.mark.guarantee(
    fault="any order of scheduled sweeps, finishes, new stuck sites, approvals, Retry and runs by "
    "hand, found by hypothesis",
    holds="no site that a standing refusal listed is reaped without a person's act",
    guard="standing refusal: without it, refused at seven, one finishes, the next sweep reaps six; "
    "answers: where a sweep that acts writes none down, the next one refuses",
)
def test_no_order_reaps_what_a_standing_refusal_listed(database_url: str, stories: int) -> None:
    machine = type("StormOfThisTest", (Storm,), {"url": database_url})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=stories,
            stateful_step_count=30,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
