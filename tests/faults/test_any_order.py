"""Whatever the order of what sweeps, chains, platforms and senders do, the promises hold.

Hypothesis makes up the stories, on a real database, and shows the shortest one that breaks a
promise. A transaction may stay open from one step of a story to a later one.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any, TypeVar
from uuid import UUID, uuid4

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning import chain, session
from provisioning.database import database
from provisioning.errors import LOCKED, AlreadyInFlight, DatabaseError, NotInFlight
from provisioning.failures import Source, fail_terminally
from provisioning.outbox.claims import Claim, claim, record
from provisioning.outbox.retry_policy import Fate, Verdict
from provisioning.outbox.store import TAKEN_UP, list_owed
from provisioning.site_state import Outcome
from provisioning.sweep.snapshot import Snapshot, look
from tests.sites import Sites, number, site

SITES = st.integers(1, 3)
Attempt = tuple[int, str]
T = TypeVar("T")


def held_by_somebody(error: DBAPIError | DatabaseError, result: T) -> T:
    """The result of a step that found its row held; any other error is none of the story's."""
    code = error.sqlstate if isinstance(error, DatabaseError) else error.orig.sqlstate  # type: ignore[union-attr]
    if code != LOCKED:
        raise error
    return result


class Story(RuleBasedStateMachine):
    """Three sites, and what happens to them."""

    url: str
    seen = Bundle("seen")
    """What sweeps saw, to be acted upon at any later time."""
    runs = Bundle("runs")
    """The chains that began an attempt, and may still believe in it."""
    documents = Bundle("documents")
    """Whole documents that the platform read, to be saved at any later time."""
    claims = Bundle("claims")
    """What senders claimed, and have not recorded yet."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.running = AsyncExitStack()
        self.engine: AsyncEngine = self.do(self.running.enter_async_context(database(self.url)))
        self.sites = Sites(self.engine)
        self.platform = psycopg.connect(self.url)
        self.reaped: Counter[Attempt] = Counter()
        self.completed: Counter[Attempt] = Counter()
        self.saved_blindly: set[int] = set()
        self.sent: dict[UUID, set[bytes]] = {}

    def do(self, action: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(action)

    def teardown(self) -> None:
        self.platform.close()
        self.do(self.running.aclose())
        self.runner.close()

    @initialize()
    def three_sites_without_an_attempt(self) -> None:
        self.do(self.sites.run("TRUNCATE sites, terminal_failures, notices CASCADE"))
        for site_id in (1, 2, 3):
            webhook = f"https://merchant.example/{site_id}"
            self.do(self.sites.add(site_id, {"provision": {"webhook": webhook}}))

    @rule(target=runs, site_id=SITES)
    def a_chain_begins(self, site_id: int) -> Any:
        try:
            return site_id, self.do(chain.begin(self.engine, site(site_id)))
        except AlreadyInFlight:
            return multiple()
        except DatabaseError as error:
            return held_by_somebody(error, multiple())

    @rule(target=runs, site_id=SITES, hours=st.integers(1, 9))
    def an_attempt_of_hours_ago_is_in_flight(self, site_id: int, hours: int) -> Any:
        """As one that another chain began, and left; its stamp is its name."""
        attempt = f"2025-01-15T0{hours}:00:00Z"
        document = {"provision": {"started_at": attempt, "webhook": "https://merchant.example/"}}
        try:
            self.save(site_id, document)
        except DBAPIError as error:
            return held_by_somebody(error, multiple())
        return site_id, attempt

    @rule(run=runs)
    def a_chain_goes_on_to_a_step(self, run: Attempt) -> None:
        self.of_the_chain(lambda: chain.step(self.engine, site(run[0]), run[1], "dns"))

    @rule(run=runs)
    def a_chain_completes(self, run: Attempt) -> None:
        in_flight = self.standing(run[0]) == (run[1], False, False)
        if self.of_the_chain(lambda: chain.complete(self.engine, site(run[0]), run[1])):
            self.completed[run] += in_flight

    @rule(run=runs)
    def a_chain_fails(self, run: Attempt) -> None:
        outcome = self.do(
            fail_terminally(
                self.engine,
                site(run[0]),
                run[1],
                reason="chain: x",
                source=Source.CHAIN,
                teardown=True,
            )
        )
        self.reaped[run] += outcome is Outcome.REAPED

    def of_the_chain(self, action: Callable[[], Coroutine[Any, Any, Any]]) -> bool:
        try:
            self.do(action())
        except NotInFlight:
            return False
        except DatabaseError as error:
            return held_by_somebody(error, False)
        return True

    @rule(target=seen, minutes=st.sampled_from([1, 30]))
    def a_sweep_looks(self, minutes: int) -> Snapshot:
        snapshot: Snapshot = self.do(
            look(self.engine, timedelta(minutes=minutes), 100, writes=True)
        )
        return snapshot

    @rule(snapshot=seen)
    def a_sweep_acts_on_what_it_saw(self, snapshot: Snapshot) -> None:
        for stuck in snapshot.stuck:
            outcome = self.do(
                fail_terminally(
                    self.engine,
                    stuck.site_id,
                    stuck.attempt,
                    reason="watchdog: x",
                    source=Source.WATCHDOG,
                    flow_run_id=uuid4(),
                    started_before=snapshot.cutoff,
                    teardown=True,
                )
            )
            self.reaped[number(stuck.site_id), stuck.attempt] += outcome is Outcome.REAPED

    @rule(target=documents, site_id=SITES)
    def the_platform_reads_a_document(self, site_id: int) -> Any:
        return site_id, self.do(self.sites.metadata(site_id))

    @rule(document=documents)
    def the_platform_saves_a_whole_document(self, document: tuple[int, Any]) -> None:
        try:
            self.save(*document)
        except DBAPIError as error:
            held_by_somebody(error, None)

    def save(self, site_id: int, document: Any) -> None:
        self.do(
            self.sites.run(
                "UPDATE sites SET metadata = CAST(:document AS jsonb) WHERE id = :id",
                id=site(site_id),
                document=json.dumps(document),
            )
        )
        self.saved_blindly.add(site_id)

    @rule(site_id=SITES)
    def the_platform_deletes_a_site_and_makes_it_again(self, site_id: int) -> None:
        try:
            self.do(self.sites.run("DELETE FROM sites WHERE id = :id", id=site(site_id)))
        except DBAPIError as error:
            held_by_somebody(error, None)
        else:
            self.do(self.sites.add(site_id, {}))

    @rule(site_id=SITES)
    def a_session_holds_a_row(self, site_id: int) -> None:
        self.platform.rollback()
        self.platform.execute("SELECT 1 FROM sites WHERE id = %s FOR UPDATE", [site(site_id)])

    @rule()
    def that_session_lets_go(self) -> None:
        self.platform.rollback()

    @rule(target=claims)
    def a_sender_claims_what_is_due(self) -> Any:
        backlog = self.do(list_owed(self.engine, TAKEN_UP, teardowns=True))
        held = []
        for notice in backlog.owed:
            claimed = self.do(claim(self.engine, notice.id))
            assert claimed is None or backlog.due(notice)
            held += [(notice.id, claimed)] if claimed else []
        return multiple(*held)

    @rule(held=claims)
    def a_sender_sends_and_dies(self, held: tuple[UUID, Claim]) -> None:
        self.sent.setdefault(held[0], set()).add(held[1].body or b"")

    @rule(held=consumes(claims), fate=st.sampled_from(list(Fate)))
    def a_sender_records_a_result(self, held: tuple[UUID, Claim], fate: Fate) -> None:
        notice_id, claimed = held
        self.sent.setdefault(notice_id, set()).add(claimed.body or b"")
        self.do(record(self.engine, notice_id, claimed.attempts, Verdict(fate, "a result"), ""))

    @rule()
    def a_minute_passes_for_the_senders(self) -> None:
        self.do(self.sites.run("UPDATE notices SET next_attempt_at = now()"))

    @invariant()
    def no_site_is_completed_and_failed_at_once(self) -> None:
        for site_id in (1, 2, 3):
            _, failed, completed = self.standing(site_id)
            assert not (failed and completed)

    @invariant()
    def an_attempt_ends_once_unless_the_platform_saves_a_stale_document_over_its_end(self) -> None:
        for one in {*self.reaped, *self.completed}:
            if one[0] not in self.saved_blindly:
                assert self.reaped[one] + self.completed[one] <= 1

    @invariant()
    def the_ledger_holds_an_attempt_once_if_somebody_was_told_that_he_failed_it(self) -> None:
        rows = self.do(self.sites.rows("SELECT site_id, attempt FROM terminal_failures"))
        ledger = Counter((number(row.site_id), row.attempt) for row in rows)
        assert set(ledger.values()) <= {1}
        assert set(ledger) == set(+self.reaped)

    @invariant()
    def a_failed_attempt_owes_at_most_one_notice_of_a_kind(self) -> None:
        rows = self.do(
            self.sites.rows(
                "SELECT f.site_id, f.attempt, n.kind FROM notices n"
                " JOIN terminal_failures f ON f.id = n.failure_id"
            )
        )
        assert set(Counter(tuple(row) for row in rows).values()) <= {1}

    @invariant()
    def a_notice_is_the_same_bytes_whenever_it_is_sent(self) -> None:
        assert all(len(bodies) == 1 for bodies in self.sent.values())

    @invariant()
    def what_was_recorded_as_delivered_was_sent(self) -> None:
        rows = self.do(self.sites.rows("SELECT id FROM notices WHERE delivered_at IS NOT NULL"))
        assert {row.id for row in rows} <= set(self.sent)

    @invariant()
    def a_site_without_a_start_has_no_mark(self) -> None:
        for site_id in (1, 2, 3):
            attempt, failed, _ = self.standing(site_id)
            assert attempt is not None or not failed

    def standing(self, site_id: int) -> tuple[str | None, bool, bool]:
        """The attempt of a site, and whether it is failed and completed."""
        (row,) = self.do(
            self.sites.rows(
                "SELECT metadata #>> '{provision,started_at}',"
                " metadata #>> '{terminal_failure}' IS NOT NULL,"
                " metadata #>> '{health_check,completed_at}' IS NOT NULL"
                " FROM sites WHERE id = :id",
                id=site(site_id),
            )
        )
        return row[0], row[1], row[2]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that is held is found busy at once: each story would wait for seconds otherwise."""
    monkeypatch.setitem(session.SESSION, "lock_timeout", "10ms")


@pytest.mark.parametrize("stories", [15, pytest.param(50, marks=pytest.mark.long)])
@pytest.mark.e2e
@pytest.mark.timeout(600)
@pytest.mark.guarantee(
    fault="any order of what sweeps, chains, platforms and senders do, found by hypothesis",
    holds="the same promises, after each step",
    guard=(
        "ledger key: without it and its ON CONFLICT, two webhooks for one attempt; in-flight "
        "check of the chain: without it, a site is completed and failed at once"
    ),
)
def test_the_promises_hold_in_any_order(database_url: str, impatient: None, stories: int) -> None:
    machine = type("StoryOfThisTest", (Story,), {"url": database_url})
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
