"""Sample sites in every situation, for an empty database, and more stuck ones on request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

Site = tuple[str, dict[str, Any]]
"""A domain and its metadata."""

TO_TRY = ("pottery.example.com", "fail-pottery.example.com")
"""Not started yet, for a trial of the chain: the one goes live, the other fails."""

DONE_STEP = "health-check"


def create_table(database_url: str) -> None:
    """Make the table of sites that a platform would have, where it is not there yet."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE IF NOT EXISTS sites (id bigint PRIMARY KEY, domain text, metadata jsonb)"
        )


def add_samples(database_url: str) -> int:
    """Fills an empty `sites`; a table that holds anything is left as it is. Says how many."""
    with psycopg.connect(database_url) as connection:
        if connection.execute("SELECT 1 FROM sites LIMIT 1").fetchone():
            return 0
        return _insert(connection, _every_situation(_now(connection)))


def to_try(database_url: str) -> list[int]:
    """The ids of the sites for a trial of the chain; none where the samples are older."""
    with psycopg.connect(database_url) as connection:
        ids: dict[str, int] = dict(
            connection.execute(
                "SELECT domain, id FROM sites WHERE domain = ANY(%s)", [list(TO_TRY)]
            ).fetchall()
        )
    return [ids[domain] for domain in TO_TRY if domain in ids]


def add_stuck(database_url: str, number: int, step: str) -> int:
    """Adds sites that stopped at one step within ten minutes, as a systemic failure does."""
    with psycopg.connect(database_url) as connection:
        now = _now(connection)
        batch = now.strftime("%H%M%S")
        return _insert(
            connection,
            (
                (f"shop-{batch}-{n:02}.example", _started(now, 40 + 10 * n / number, step))
                for n in range(number)
            ),
        )


def _every_situation(now: datetime) -> Iterator[Site]:
    yield from _live(now)
    yield from _in_flight(now)
    yield from _stuck(now)
    yield from _failed(now)
    yield from _unreadable(now)
    yield from ((domain, {}) for domain in TO_TRY)


def _live(now: datetime) -> Iterator[Site]:
    for days, name in enumerate(("bakery", "florist", "bikes", "ceramics", "bookshop"), start=2):
        minutes = days * 24 * 60
        yield f"{name}.example", _completed(now, minutes, minutes - 4)
    # Slower than the threshold, and finished before anybody looked.
    yield "vineyard.example.com", _completed(now, 95, 2)
    yield "orchard.example.com", _completed(now, 41, 1)


def _in_flight(now: datetime) -> Iterator[Site]:
    yield "tailor.example.com", _started(now, 2, "server")
    yield "roastery.example.com", _started(now, 5, "dns")
    yield "luthier.example.com", _started(now, 9, "certificate")
    yield "cheesemonger.example.com", _started(now, 14, "install")


def _stuck(now: datetime) -> Iterator[Site]:
    yield "hatmaker.example.com", _started(now, 3 * 24 * 60 + 17, "dns")
    yield "gallery.example.com", _started(now, 7 * 60 + 3, "certificate")
    yield "toyshop.example.com", _started(now, 128, "dns")
    yield "brewery.example.com", _started(now, 74, "certificate")
    yield "chocolatier.example.com", _started(now, 52, "dns")
    yield "perfumery.example.com", _started(now, 47, "install")
    yield "stationer.example.com", _started(now, 38, "dns")


def _failed(now: datetime) -> Iterator[Site]:
    for domain, minutes, step, reason in (
        ("saddler.example.com", 26 * 60, "install", "install: the host refused the connection"),
        ("jeweller.example.com", 310, "dns", "dns: the zone is not delegated to us"),
        ("barber.example.com", 55, "certificate", "certificate: too many requests for this name"),
    ):
        metadata = _started(now, minutes, step)
        metadata["terminal_failure"] = {
            "failed_at": _ago(now, minutes - 6),
            "reason": reason,
            "source": "chain",
            "started_at": metadata["provision"]["started_at"],
            "flow_run_id": None,
        }
        yield domain, metadata


def _unreadable(now: datetime) -> Iterator[Site]:
    yield "cobbler.example.com", {"provision": {"started_at": "yesterday", "step": "dns"}}
    yield "glazier.example.com", {"provision": {"started_at": 1735689600, "step": "server"}}
    yield "weaver.example.com", _started(now, -24 * 60, "dns")


def _started(now: datetime, minutes_ago: float, step: str) -> dict[str, Any]:
    return {"provision": {"started_at": _ago(now, minutes_ago), "step": step}}


def _completed(now: datetime, minutes_ago: float, completed_minutes_ago: float) -> dict[str, Any]:
    return _started(now, minutes_ago, DONE_STEP) | {
        "health_check": {"completed_at": _ago(now, completed_minutes_ago)}
    }


def _ago(now: datetime, minutes: float) -> str:
    return (now - timedelta(minutes=minutes)).isoformat(timespec="seconds")


def _now(connection: psycopg.Connection[Any]) -> datetime:
    """By the database's clock, which is the one that sweeps go by."""
    row = connection.execute("SELECT now()").fetchone()
    assert row is not None
    now: datetime = row[0]
    return now.astimezone(UTC)


def _insert(connection: psycopg.Connection[Any], sites: Iterable[Site]) -> int:
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO sites (id, domain, metadata)"
            " SELECT coalesce(max(id), 0) + 1, %s, %s FROM sites",
            [(domain, Jsonb(metadata)) for domain, metadata in sites],
        )
        return cursor.rowcount
