"""`iso_instant` reads a stamp exactly or not at all, never raises, and no setting changes it.

Cases F03, F24, G16 and G37, held against the inputs of public suites and a second reader.
"""

import json
import re
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta, timezone

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from provisioning.migrations.iso_instant import create_iso_instant
from tests.database.stamp_corpus.generate import TABLE, UNREADABLE, lines
from tests.database.stamp_corpus.reader import read

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FUZZ = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture
def connection(database_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


def instants(connection: psycopg.Connection, texts: Iterable[str]) -> list[datetime | None]:
    """What the database reads, by way of whole microseconds: no setting prints them differently."""
    query = (
        "SELECT CAST(extract(epoch FROM iso_instant(t)) * 1000000 AS bigint)"
        " FROM unnest(%s::text[]) WITH ORDINALITY AS u(t, n) ORDER BY n"
    )
    rows = connection.execute(query, [list(texts)]).fetchall()
    return [None if row[0] is None else EPOCH + timedelta(microseconds=row[0]) for row in rows]


def corpus() -> list[tuple[str, str]]:
    """Each text of the suites, and its instant or `unreadable`."""
    rows = [line.split("\t") for line in TABLE.read_text().splitlines()]
    return [(json.loads(text), expected) for _suite, text, expected in rows]


def test_the_table_is_what_the_second_reader_makes_of_the_texts() -> None:
    assert TABLE.read_text().splitlines() == lines()


@pytest.mark.parametrize("interval_style", ["postgres", "sql_standard", "iso_8601"])
@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kathmandu", "Pacific/Apia"])
@pytest.mark.parametrize("date_style", ["ISO, MDY", "SQL, DMY", "German", "Postgres, YMD"])
def test_the_inputs_of_the_suites_are_read_alike_under_every_setting(
    connection: psycopg.Connection, date_style: str, zone: str, interval_style: str
) -> None:
    for name, value in [
        ("datestyle", date_style),
        ("timezone", zone),
        ("intervalstyle", interval_style),
        ("standard_conforming_strings", "off"),
        ("search_path", "public, pg_catalog"),
    ]:
        connection.execute("SELECT set_config(%s, %s, false)", [name, value])
    table = corpus()
    found = instants(connection, (stamp for stamp, _ in table))
    wrong = [
        (stamp, expected, instant)
        for (stamp, expected), instant in zip(table, found, strict=True)
        if (UNREADABLE if instant is None else instant.isoformat()) != expected
    ]
    assert wrong == []
    assert sum(instant is not None for instant in found) > 200


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII", "WIN1252"])
def test_the_clients_encoding_changes_nothing(
    connection: psycopg.Connection, encoding: str
) -> None:
    connection.execute(f"SET client_encoding = '{encoding}'")
    table = [(stamp, expected) for stamp, expected in corpus() if stamp.isascii()]
    found = instants(connection, (stamp for stamp, _ in table))
    assert [instant.isoformat() if instant else UNREADABLE for instant in found] == [
        expected for _, expected in table
    ]


OFFSETS = st.integers(-14 * 60 - 59, 14 * 60 + 59).map(lambda minutes: timedelta(minutes=minutes))
MOMENTS = st.datetimes(
    datetime(2000, 1, 2), datetime(2999, 12, 30), timezones=OFFSETS.map(timezone)
)


@st.composite
def stamps(draw: st.DrawFn) -> tuple[str, datetime]:
    """A moment in one of the forms, and the moment."""
    moment = draw(MOMENTS)
    clock, exact = draw(
        st.sampled_from(
            [
                (f"{moment:%H:%M}", moment.replace(second=0, microsecond=0)),
                (f"{moment:%H:%M:%S}", moment.replace(microsecond=0)),
                (f"{moment:%H:%M:%S.%f}", moment),
                (f"{moment:%H:%M:%S,%f}", moment),
                (f"{moment:%H:%M:%S.%f}999", moment),
                (f"{moment:%H:%M:%S.}{moment.microsecond // 100000}", _tenths(moment)),
            ]
        )
    )
    offset = draw(st.sampled_from([f"{moment:%z}", _colon(moment)]))
    end = draw(
        st.sampled_from(
            [offset, f" {offset}", f"{offset}[Europe/Paris]", f" {offset} CET", f"{offset}[a=b]"]
        )
    )
    if draw(st.booleans()):
        exact = exact.replace(tzinfo=UTC)
        end = draw(st.sampled_from(["", "Z", "z", " UTC", "Z[UTC]", "+00", " +0000 UTC"]))
    return f"{moment:%Y-%m-%d}{draw(st.sampled_from('Tt '))}{clock}{end}", exact


def _tenths(moment: datetime) -> datetime:
    return moment.replace(microsecond=moment.microsecond // 100000 * 100000)


def _colon(moment: datetime) -> str:
    return f"{moment:%z}"[:3] + ":" + f"{moment:%z}"[3:]


@FUZZ
@given(made=st.lists(stamps(), min_size=1, max_size=30))
def test_every_moment_in_every_form_is_read_exactly(
    connection: psycopg.Connection, made: list[tuple[str, datetime]]
) -> None:
    assert instants(connection, (stamp for stamp, _ in made)) == [
        moment.astimezone(UTC) for _, moment in made
    ]


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A stamp with a few characters taken out, put in or changed."""
    stamp, _ = draw(stamps())
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(stamp)))
        put = draw(st.text("0123456789:.,+-TtZz []=!/UTCm\n\\ä٣", max_size=2))
        stamp = stamp[:place] + put + stamp[place + draw(st.integers(0, 2)) :]
    return stamp


NO_NUL = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


@FUZZ
@given(texts=st.lists(damaged() | NO_NUL, min_size=1, max_size=50))
def test_whatever_the_text_it_is_read_as_the_second_reader_reads_it_and_nothing_raises(
    connection: psycopg.Connection, texts: list[str]
) -> None:
    assert instants(connection, texts) == [read(stamp) for stamp in texts]


def test_a_fraction_beyond_microseconds_never_moves_a_start_over_a_cutoff(
    connection: psycopg.Connection,
) -> None:
    """Rounded, the first would be the cutoff itself, and a stuck site would not be stuck."""
    before, at = "2025-01-15T14:00:00.0000009Z", "2025-01-15T14:00:00.000001Z"
    first, second = instants(connection, [before, at])
    assert first is not None
    assert second is not None
    assert first < second


@pytest.mark.parametrize(
    "long",
    ["2" * 20_000_000, "2025-01-15T14:00:00Z" + "[a=b]" * 4_000_000, "2025-01-15T" * 2_000_000],
    ids=["digits", "tags", "starts"],
)
def test_a_text_of_megabytes_is_refused_at_once(connection: psycopg.Connection, long: str) -> None:
    connection.execute("CREATE TEMP TABLE long (t text)")
    connection.execute("ALTER TABLE long ALTER t SET STORAGE EXTERNAL")
    connection.execute("INSERT INTO long VALUES (%s)", [long])
    started = time.monotonic()
    assert connection.execute("SELECT count(iso_instant(t)) FROM long").fetchone() == (0,)
    assert time.monotonic() - started < 1


def test_no_parser_of_placeholders_finds_one_in_the_functions_text() -> None:
    """Case G37: SQLAlchemy's, Rails' and psycopg's; and no setting reads a backslash otherwise."""
    function = create_iso_instant("iso_instant")
    assert text(function).compile().params == {}
    assert re.findall(r"(?<!:):[A-Za-z0-9_]", function) == []
    assert "%" not in function
    assert "\\" not in function
