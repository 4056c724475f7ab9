"""The evidence of a refusal, and the report: readable, bounded, free of markup from outside."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from provisioning.errors import CapExceeded
from provisioning.site_state import Outcome
from provisioning.sweep.approvals import Refusal
from provisioning.sweep.caps import Caps, Standing
from provisioning.sweep.grouping import Groups, by_step, largest_group
from provisioning.sweep.last_hour import Busiest
from provisioning.sweep.refusals import Past
from provisioning.sweep.refusing import refuse
from provisioning.sweep.report import (
    ROWS,
    Neighbours,
    failure_report,
    refusal_report,
    report,
)
from provisioning.sweep.result import (
    Ending,
    NotLookedUp,
    Result,
    blindness,
    conclude,
    in_flight_in_words,
    nearness,
)
from provisioning.sweep.snapshot import Candidate, SetAside, Snapshot

NOW = datetime(2025, 1, 15, 15, 30, tzinfo=UTC)


def candidate(site_id: int, step: str = "dns", age: timedelta = timedelta(minutes=90)) -> Candidate:
    started = NOW - age
    return Candidate(site_id, f"shop-{site_id}.example", started.isoformat(), started, step)


def snapshot(*stuck: Candidate, total: int | None = None, **more: object) -> Snapshot:
    facts: dict[str, object] = {
        "looked_at": NOW,
        "cutoff": NOW - timedelta(minutes=30),
        "stuck": stuck,
        "stuck_total": len(stuck) if total is None else total,
        "unreadable": (),
        "unreadable_total": 0,
        "in_flight": len(stuck),
        "reaped_last_hour": 0,
        "groups": Groups(len(stuck), steps=tuple(by_step(stuck))),
    }
    return Snapshot(**(facts | more))  # type: ignore[arg-type]


def outcomes(*chosen: Outcome) -> list[Result]:
    return [Result(candidate(i), outcome) for i, outcome in enumerate(chosen)]


@pytest.mark.parametrize(
    ("results", "dry_run", "ending"),
    [
        ([], False, Ending.CLEAN),
        ([Outcome.FINISHED, Outcome.VANISHED], False, Ending.CLEAN),
        ([Outcome.REAPED, Outcome.NOT_REACHED], False, Ending.INCOMPLETE),
        ([Outcome.REAPED, Outcome.FINISHED], False, Ending.REAPED),
        ([Outcome.REAPED, Outcome.ERRORED], False, Ending.INCOMPLETE),
        ([Outcome.ERRORED], False, Ending.INCOMPLETE),
        ([Outcome.WOULD_REAP], True, Ending.REHEARSED),
        ([], True, Ending.REHEARSED),
    ],
)
def test_the_state_of_a_run(results: list[Outcome], dry_run: bool, ending: Ending) -> None:
    made = outcomes(*results)
    seen = snapshot(*(result.candidate for result in made))
    assert (
        conclude(seen, made, dry_run=dry_run, near=None, approves=None, notices=None)[0] is ending
    )


@pytest.mark.parametrize(
    ("age", "ending"),
    [(timedelta(minutes=59), Ending.CLEAN), (timedelta(minutes=60), Ending.INCOMPLETE)],
)
def test_a_busy_site_needs_a_person_from_twice_the_threshold_on(
    age: timedelta, ending: Ending
) -> None:
    busy = Result(candidate(1, age=age), Outcome.BUSY, "process 7 of role app holds it")
    made, message = conclude(
        snapshot(busy.candidate), [busy], dry_run=False, near=None, approves=None, notices=None
    )
    assert made is ending
    assert ("1 busy site stuck for more than 1 h" in message) is (ending is Ending.INCOMPLETE)


@pytest.mark.parametrize(
    ("times", "ending"), [(0, Ending.REAPED), (1, Ending.REAPED), (2, Ending.INCOMPLETE)]
)
def test_a_mark_that_is_lost_again_and_again_needs_a_person(times: int, ending: Ending) -> None:
    made = [Result(candidate(1), Outcome.REAPED, marked_again=times), *outcomes(Outcome.REAPED)]
    seen = snapshot(*(result.candidate for result in made))
    got, message = conclude(seen, made, dry_run=False, near=None, approves=None, notices=None)
    assert got is ending
    assert message.startswith("2 stuck sites found: 2 reaped. ")
    assert ("1 mark of an earlier sweep gone and set again" in message) is (times > 0)


@pytest.mark.parametrize(
    ("unreadable", "in_flight", "blind"),
    [(4, 4, False), (5, 9, True), (5, 10, False), (40, 40, True), (41, 100, False)],
)
def test_a_sweep_is_blind_from_five_unreadable_on_if_they_are_most(
    unreadable: int, in_flight: int, blind: bool
) -> None:
    seen = snapshot(
        unreadable=(SetAside(1, "a.example", "gestern"),),
        unreadable_total=unreadable,
        in_flight=in_flight,
    )
    said = blindness(seen)
    assert (said is not None) is blind
    if said:
        assert f"{unreadable} of {in_flight} sites in flight can't be read" in said
        assert "gestern" in said


def test_what_is_left_alone_is_counted() -> None:
    seen = snapshot(in_flight=9, on_hold_total=2, waiting_total=1)
    assert in_flight_in_words(seen) == (
        "In flight when it looked: 9, with an unreadable start: 0, on hold: 2, before a deadline: 1"
    )


def test_an_approval_is_near_no_cap_and_is_finished_by_approving_again() -> None:
    assert nearness(26, 0, Caps(per_run=26, per_hour=None)) is None
    made = outcomes(Outcome.REAPED, Outcome.NOT_REACHED)
    refused = Refusal(uuid4(), NOW, timedelta(minutes=30), 2)
    message = conclude(
        snapshot(*(result.candidate for result in made)),
        made,
        dry_run=False,
        near=None,
        approves=refused,
        notices=None,
    )[1]
    assert "1 reaped, 1 not reached. Approve the same run again to go on." in message


def test_no_sentence_ends_twice() -> None:
    looked = NotLookedUp("the database stopped answering.")
    message = conclude(snapshot(), [], dry_run=False, near=None, approves=None, notices=looked)[1]
    assert ".." not in message
    assert "since the database stopped answering. In flight" in message


def test_what_needs_a_person_is_red() -> None:
    red = [ending for ending in Ending if ending.red]
    assert red == [Ending.REFUSED, Ending.INCOMPLETE, Ending.FAILED]


def test_the_message_holds_the_numbers() -> None:
    made = outcomes(Outcome.REAPED, Outcome.REAPED, Outcome.FINISHED)
    seen = snapshot(*(result.candidate for result in made), in_flight=12, unreadable_total=1)
    assert conclude(seen, made, dry_run=False, near=None, approves=None, notices=None)[1] == (
        "3 stuck sites found: 2 reaped, 1 finished meanwhile. "
        "In flight when it looked: 12, with an unreadable start: 1."
    )


def test_a_cap_is_said_to_be_near_from_four_fifths_of_it_on() -> None:
    caps = Caps(per_run=25, per_hour=100)
    assert nearness(19, 0, caps) is None
    assert nearness(20, 0, caps) == "Near the cap of a run: 20 of 25"
    assert nearness(5, 74, caps) is None
    assert nearness(5, 75, caps) == "Near the cap of an hour: 80 of 100"
    assert nearness(0, 100, caps) is None


def test_the_largest_group_is_one_sentence() -> None:
    stuck = [candidate(i, age=timedelta(minutes=90 - i)) for i in range(29)]
    stuck += [candidate(30, "certificate"), candidate(31, "")]
    assert largest_group(Groups(31, tuple(by_step(stuck)))) == (
        "29 of 31 stopped at step dns, started 2025-01-15 14:00 to 14:28 UTC"
    )


def test_sites_without_a_step_are_a_group_of_their_own() -> None:
    assert [(g.label, g.size) for g in by_step([candidate(1, ""), candidate(2)])] == [
        ("no step stamped", 1),
        ("dns", 1),
    ]


OVER = CapExceeded("26 stuck sites, over the cap of 25 a run", found=26, cap=25)
NO_PAST = Past(0, None, None, None)
SECOND = Past(2, NOW - timedelta(minutes=10), Standing(NOW, 25), None)


def refused(past: Past, refusal: CapExceeded = OVER, **chosen: bool) -> str:
    seen = snapshot(*(candidate(i) for i in range(refusal.found)))
    return refuse(
        seen, refusal, past, **({"stands": True, "dry_run": False} | chosen), notices=None
    )


def test_a_refusal_says_the_numbers_the_age_and_what_to_do() -> None:
    assert refused(SECOND) == (
        "26 stuck sites, over the cap of 25 a run: nothing was changed. "
        "26 of 26 stopped at step dns, started at 2025-01-15 14:00 UTC. "
        "The oldest started 1 h 30 min ago. Refusal 3 in a row, since 2025-01-15 15:20 UTC. "
        "Sweeps act again at 12 or fewer, or when you approve it or run one by hand. "
        "Something systemic broke: a person must look before anything is let through."
    )


def test_a_refusal_that_holds_nobody_back_says_that_the_next_sweep_asks_again() -> None:
    by_hand = refused(NO_PAST, stands=False)
    assert "The sweep before it did not refuse. The next scheduled sweep asks again" in by_hand
    hour = CapExceeded("20 stuck sites and 81", found=20, cap=100, per_hour=True)
    assert "refuses while the hour's sum would pass the cap" in refused(SECOND, hour)


def test_a_refusal_with_a_cap_of_one_is_over_when_none_is_stuck() -> None:
    one = CapExceeded("2 stuck sites, over the cap of 1 a run", found=2, cap=1)
    assert "Sweeps act again when none is stuck, or when you approve it" in refused(NO_PAST, one)


def test_a_run_that_refuses_again_says_that_its_first_list_is_what_an_approval_lets_through() -> (
    None
):
    again = refused(Past(0, NOW, Standing(NOW, 25), NOW), stands=False)
    assert (
        "This run refused before, at 2025-01-15 15:30 UTC, and an approval lets through what it "
        "listed then: for a newer list start another run." in again
    )


def test_a_rehearsed_refusal_says_what_a_sweep_would_do_and_counts_in_no_row() -> None:
    told = refused(SECOND, dry_run=True)
    assert told.startswith("Dry run, nothing was changed. A sweep would refuse: 26 stuck sites, ov")
    assert "in a row" not in told


def approval(listed: int, results: list[Result], others: int) -> str:
    seen = snapshot(*(result.candidate for result in results), stuck_beside=others)
    chosen = Refusal(uuid4(), NOW, timedelta(minutes=10), listed)
    return conclude(
        seen, results, dry_run=False, near=None, approves=chosen, notices=None, note="dns is back"
    )[1]


@pytest.mark.parametrize(
    ("others", "said"),
    [
        (0, "None of the 30 listed is stuck any more."),
        (1, "None of the 30 listed is stuck any more; 1 other is."),
        (30, "None of the 30 listed is stuck any more; 30 others are."),
    ],
)
def test_an_approval_that_came_too_late_says_what_is_stuck_now(others: int, said: str) -> None:
    assert said in approval(30, [], others)
    assert "Nothing was stuck" not in approval(30, [], others)


def test_an_approval_says_its_note_and_what_it_leaves() -> None:
    told = approval(3, outcomes(Outcome.REAPED, Outcome.FINISHED), 26)
    assert "which listed 3 sites. Note: dns is back. 2 stuck sites found: 1 reaped, 1 fi" in told
    assert "26 more, not approved here, are stuck." in told


def test_the_report_of_a_huge_refusal_is_bounded_and_names_the_step_first() -> None:
    stuck = [candidate(i, "dns" if i < 4_960 else "certificate") for i in range(5_000)]
    refusal = CapExceeded("m", found=5_000, cap=25)
    shown = refusal_report(
        Ending.REFUSED,
        "m",
        snapshot(*stuck),
        refusal,
        run_id=uuid4(),
        form=None,
        deployment="d",
        hour=[],
        notices=None,
    )
    assert len(shown.encode()) < 200_000
    assert shown.count("| dns | 4,960 |") == 1
    assert f"… and {5_000 - ROWS:,} more." in shown


def test_a_report_says_for_how_long_a_site_stands_at_its_step() -> None:
    since = NOW - timedelta(minutes=35)
    stands = replace(candidate(3_000_000_001), step_at=since)
    wrong = replace(candidate(3_000_000_002), step_at=NOW + timedelta(days=1))
    seen = snapshot(stands, wrong)
    results = [Result(site, Outcome.REAPED) for site in seen.stuck]
    shown = report(Ending.REAPED, "m", seen, results, approves=None, notices=None)
    assert "| dns for 35 min | reaped |" in shown
    assert "| dns | reaped |" in shown


def test_a_report_says_how_the_caps_stand_against_what_was_reaped_at_the_busiest() -> None:
    seen = snapshot(busiest=Busiest(run=3, hour=5))
    shown = report(
        Ending.CLEAN,
        "m",
        seen,
        [],
        approves=None,
        notices=None,
        caps=Caps(per_run=25, per_hour=100),
    )
    assert (
        "The busiest run of the last 30 days reaped 3, the busiest hour 5; "
        "the caps are 25 a run and 100 an hour." in shown
    )


def test_the_worst_report_stays_under_its_bound() -> None:
    ugly = "|" * 253
    stuck = [Candidate(i, ugly, "x", NOW - timedelta(hours=1), "*" * 100) for i in range(5_000)]
    unreadable = tuple(SetAside(i, ugly, "<" * 200) for i in range(100))
    seen = snapshot(*stuck, unreadable=unreadable, unreadable_total=100_000)
    results = [Result(site, Outcome.ERRORED, "\\" * 5_000) for site in stuck]
    shown = report(Ending.INCOMPLETE, "m" * 9_000, seen, results, approves=None, notices=None)
    assert len(shown.encode()) < 400_000


def test_the_report_lists_trouble_first_and_escapes_what_comes_from_outside() -> None:
    bad = Candidate(2, "a|b\n<img>", "x", NOW - timedelta(hours=1), "dns")
    results = [
        Result(candidate(1), Outcome.REAPED),
        Result(bad, Outcome.ERRORED, "the platform's trigger said | no"),
    ]
    seen = snapshot(
        candidate(1), bad, unreadable=(SetAside(3, "shop-3.example", ""),), unreadable_total=1
    )
    shown = report(
        Ending.INCOMPLETE, "1 reaped, 1 errored", seen, results, approves=None, notices=None
    )
    rows = [line for line in shown.splitlines() if line.startswith(("| 1 ", "| 2 ", "| 3 "))]
    assert rows == [
        r"| 2 | a\|b \<img\> | 1 h | dns | errored: the platform's trigger said \| no |",
        "| 1 | shop-1.example | 1 h 30 min | dns | reaped |",
        r"| 3 | shop-3.example | (empty) |",
    ]


def failed(around: Neighbours, *, approval: bool = False, cut_off: bool = False) -> str:
    message = "Could not look: dns."
    return failure_report("Failed", message, around, approval=approval, cut_off=cut_off)


def test_a_report_of_a_failure_says_what_to_do_and_when_it_is_tried_again() -> None:
    around = Neighbours(NOW - timedelta(minutes=20), "Clean", NOW + timedelta(minutes=5))
    shown = failed(around)
    assert shown.startswith("## Failed\n\nCould not look: dns.\n\n### What to do\n\n1. ")
    assert "`provision-reaper doctor`" in shown
    assert "scheduled for 2025-01-15 15:35:00 UTC" in shown
    assert "could look ended at 2025-01-15 15:10:00 UTC, `Clean`." in shown
    assert "\n\n\n" not in shown


def test_a_report_of_a_failure_says_no_more_than_is_known() -> None:
    shown = failed(Neighbours())
    assert "The next scheduled sweep tries again by itself" in shown
    assert "could look ended" not in shown
    assert "Nothing tries an approval again" in failed(Neighbours(), approval=True)
    cut_off = failed(Neighbours(), cut_off=True)
    assert "No site was failed" not in cut_off
    assert "What it did stays done" in cut_off


def test_a_report_of_a_blind_sweep_lists_what_it_could_not_read() -> None:
    seen = snapshot(unreadable=(SetAside(3, "a|b", "gestern"),), unreadable_total=9)
    shown = failure_report("Failed", "m", Neighbours(), approval=False, snapshot=seen)
    assert r"| 3 | a\|b | gestern |" in shown
    assert "… and 8 more." in shown
