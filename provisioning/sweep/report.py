"""The report of a run as Markdown: bounded in size, and nothing in it is taken for markup."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from uuid import UUID

from provisioning.errors import CapExceeded
from provisioning.outbox.dispatcher import Deliveries
from provisioning.outbox.store import Notice
from provisioning.site_state import Outcome
from provisioning.sweep.grouping import Group, by_start, by_step, largest_group
from provisioning.sweep.result import Ending, NoticesSent, Result, in_words
from provisioning.sweep.snapshot import Candidate, PastSweep, Snapshot
from provisioning.text import cell, duration

ROWS = 200
"""The most rows of a table. With them a report stays well under 200 kB."""


def report(
    ending: Ending,
    message: str,
    snapshot: Snapshot,
    results: Sequence[Result],
    *,
    approves: str | None,
    notices: NoticesSent,
) -> str:
    """The report of a run that looked and acted, or rehearsed.

    Args:
        approves: the address of the refused run that this one lets through.
    """
    trouble_first = sorted(results, key=lambda result: result.outcome is not Outcome.ERRORED)
    return "\n".join(
        [
            *_heading(ending, message, snapshot),
            *([f"[The refused run]({approves}) that this one approves.", ""] if approves else []),
            *_table(
                "Sites",
                ["Site", "Domain", "Stuck for", "Last step", "Outcome"],
                [
                    [*_site(result.candidate, snapshot), cell(_outcome(result), 300)]
                    for result in trouble_first[:ROWS]
                ],
                len(results),
            ),
            *_notices(notices),
            *_unreadable(snapshot),
        ]
    )


def refusal_report(
    message: str,
    snapshot: Snapshot,
    refusal: CapExceeded,
    *,
    run_id: UUID | None,
    form: str | None,
    deployment: str,
    hour: Sequence[PastSweep],
    notices: NoticesSent,
) -> str:
    """The report of a refused run: its evidence, and how to let exactly that through.

    Args:
        run_id: the value that approves this refusal; None where it can't be approved.
        form: the address of the form with that value filled in; None without a deployment.
        deployment: the deployment that sweeps here, as `flow/deployment`.
        hour: the sweeps that used the hourly cap up, where that was the one.
    """
    return "\n".join(
        [
            f"**{cell(largest_group(snapshot.stuck), 300)}.**",
            "",
            *_heading(Ending.REFUSED, message, snapshot),
            *_table(
                "The sweeps of the last hour",
                ["Began (UTC)", "Sites reaped", "Run"],
                [
                    [f"{past.began:%H:%M:%S}", f"{past.reaped:,}", f"{past.flow_run_id}"]
                    for past in hour[:ROWS]
                ],
                len(hour),
            ),
            *_groups("By last step", "Last step", by_step(snapshot.stuck)),
            *_groups("By start time", "Started from (UTC)", by_start(snapshot.stuck)),
            *_what_to_do(run_id, form, deployment),
            *_table(
                "Sites, oldest first",
                ["Site", "Domain", "Stuck for", "Last step"],
                [_site(candidate, snapshot) for candidate in snapshot.stuck[:ROWS]],
                refusal.found,
            ),
            *_notices(notices),
            *_unreadable(snapshot),
        ]
    )


def _heading(ending: Ending, message: str, snapshot: Snapshot) -> list[str]:
    threshold = snapshot.looked_at - snapshot.cutoff
    return [
        f"## {ending}",
        "",
        cell(message, 2_000),
        "",
        f"Looked at {snapshot.looked_at:%Y-%m-%d %H:%M:%S} UTC, by the database's clock, for "
        f"attempts that started before {snapshot.cutoff:%Y-%m-%d %H:%M:%S} UTC "
        f"({duration(threshold)} ago).",
        "",
    ]


def _what_to_do(run_id: UUID | None, form: str | None, deployment: str) -> list[str]:
    filled_in = (
        f"[open the form with this approval filled in]({form}), check it and *Submit*. Or "
        if form
        else ""
    )
    approve = (
        [
            f"3. **To let exactly these sites through**, within 24 hours: {filled_in}on the "
            "deployment's page *Run*, *Custom run*, with `approve_refusal` set to",
            "",
            "   ```",
            f"   {run_id}",
            "   ```",
            "",
            "   Each site is checked again first; what got stuck since is left to the next sweep. "
            "From a shell:",
            "",
            "   ```",
            f"   prefect deployment run {deployment} --param approve_refusal={run_id}",
            "   ```",
        ]
        if run_id
        else ["3. This refusal was not recorded and can't be approved: run the sweep again."]
    )
    return [
        "### What to do",
        "",
        "1. **Is it an outage?** Sites that stopped at one step or started in one span of time "
        "point to what broke: see the two tables above, and look at that step's service and at "
        "the queue and the workers of the chain. A deploy at that time is the usual suspect.",
        "2. **Does it go on?** Start a *Custom run* with `dry_run` on, a few minutes apart: a "
        "number that grows is an outage that goes on, one that falls is a platform that recovers "
        "by itself. Mend that first: a site that is failed now would be provisioned in vain.",
        *approve,
        "",
    ]


def _groups(title: str, label: str, groups: Sequence[Group]) -> list[str]:
    rows = [
        [
            cell(group.label),
            f"{group.size:,}",
            f"{group.first:%m-%d %H:%M}–{group.last:%m-%d %H:%M}",
        ]
        for group in groups
    ]
    return _table(title, [label, "Sites", "Started (UTC)"], rows, len(rows))


def _notices(deliveries: NoticesSent) -> list[str]:
    """What is owed, since when and how often tried, and what was given up within a day."""
    if not isinstance(deliveries, Deliveries):
        return []
    columns = ["Site", "Domain", "Notice", "Receiver", "Failed", "Tries", "Last answer"]
    owed = deliveries.webhooks_owed + deliveries.teardowns_owed
    return [
        *_table("Notices still owed", columns, _notice_rows(deliveries, deliveries.owed), owed),
        *_table(
            "Notices given up within a day",
            columns,
            _notice_rows(deliveries, deliveries.given_up),
            deliveries.given_up_total,
        ),
    ]


def _notice_rows(deliveries: Deliveries, notices: Sequence[Notice]) -> list[list[str]]:
    return [
        [
            str(notice.site_id),
            cell(notice.domain),
            notice.kind.value,
            cell(notice.receiver) or "–",
            f"{duration(deliveries.listed_at - notice.failed_at)} ago",
            f"{notice.attempts:,}",
            cell(notice.last_error, 200) or "–",
        ]
        for notice in notices[:ROWS]
    ]


def _unreadable(snapshot: Snapshot) -> list[str]:
    return _table(
        "Unreadable start stamps: never reaped, to be mended by a person",
        ["Site", "Domain", "Start stamp"],
        [
            [str(site.site_id), cell(site.domain), cell(site.stamp) or "(empty)"]
            for site in snapshot.unreadable[:ROWS]
        ],
        snapshot.unreadable_total,
    )


def _table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], total: int
) -> list[str]:
    shown = [f"| {' | '.join(row)} |" for row in rows]
    if not shown:
        return []
    more = [f"… and {total - len(shown):,} more.", ""] if total > len(shown) else []
    return [
        f"### {title}",
        "",
        f"| {' | '.join(columns)} |",
        f"|{' --- |' * len(columns)}",
        *shown,
        "",
        *more,
    ]


def _site(candidate: Candidate, snapshot: Snapshot) -> list[str]:
    age: timedelta = snapshot.age(candidate)
    return [
        str(candidate.site_id),
        cell(candidate.domain),
        duration(age),
        cell(candidate.step) or "–",
    ]


def _outcome(result: Result) -> str:
    words = in_words(result.outcome)
    return f"{words}: {result.reason}" if result.reason else words
