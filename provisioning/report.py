"""The report of a run as Markdown: bounded in size, and nothing in it is taken for markup."""

from collections.abc import Iterable, Sequence
from datetime import timedelta

from provisioning.caps import CapExceeded
from provisioning.endings import Ending, Result, in_words
from provisioning.evidence import Group, by_start, by_step, largest_group
from provisioning.outcomes import Outcome
from provisioning.sightings import Candidate, Sighting
from provisioning.text import cell, duration

ROWS = 200
"""The most rows of a table. With them a report stays well under 200 kB."""


def report(ending: Ending, message: str, sighting: Sighting, results: Sequence[Result]) -> str:
    """The report of a run that looked and acted, or rehearsed."""
    trouble_first = sorted(results, key=lambda result: result.outcome is not Outcome.ERRORED)
    return "\n".join(
        [
            *_heading(ending, message, sighting),
            *_table(
                "Sites",
                ["Site", "Domain", "Stuck for", "Last step", "Outcome"],
                [
                    [*_site(result.candidate, sighting), cell(_outcome(result), 300)]
                    for result in trouble_first[:ROWS]
                ],
                len(results),
            ),
            *_unreadable(sighting),
        ]
    )


def refusal_report(message: str, sighting: Sighting, refusal: CapExceeded) -> str:
    """The report of a refused run: its evidence."""
    return "\n".join(
        [
            f"**{cell(largest_group(sighting.stuck), 300)}.**",
            "",
            *_heading(Ending.REFUSED, message, sighting),
            *_groups("By last step", "Last step", by_step(sighting.stuck)),
            *_groups("By start time", "Started from (UTC)", by_start(sighting.stuck)),
            *_table(
                "Sites, oldest first",
                ["Site", "Domain", "Stuck for", "Last step"],
                [_site(candidate, sighting) for candidate in sighting.stuck[:ROWS]],
                refusal.found,
            ),
            *_unreadable(sighting),
        ]
    )


def _heading(ending: Ending, message: str, sighting: Sighting) -> list[str]:
    threshold = sighting.looked_at - sighting.cutoff
    return [
        f"## {ending}",
        "",
        cell(message, 2_000),
        "",
        f"Looked at {sighting.looked_at:%Y-%m-%d %H:%M:%S} UTC, by the database's clock, for "
        f"attempts that started before {sighting.cutoff:%Y-%m-%d %H:%M:%S} UTC "
        f"({duration(threshold)} ago).",
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


def _unreadable(sighting: Sighting) -> list[str]:
    return _table(
        "Unreadable start stamps: never reaped, to be mended by a person",
        ["Site", "Domain", "Start stamp"],
        [
            [str(site.site_id), cell(site.domain), cell(site.stamp) or "(empty)"]
            for site in sighting.unreadable[:ROWS]
        ],
        sighting.unreadable_total,
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


def _site(candidate: Candidate, sighting: Sighting) -> list[str]:
    age: timedelta = sighting.age(candidate)
    return [
        str(candidate.site_id),
        cell(candidate.domain),
        duration(age),
        cell(candidate.step) or "–",
    ]


def _outcome(result: Result) -> str:
    words = in_words(result.outcome)
    return f"{words}: {result.reason}" if result.reason else words
