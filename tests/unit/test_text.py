"""Text from outside is made safe before anybody stores, logs or shows it."""

from datetime import timedelta

import pytest

from provisioning.text import REASON_LIMIT, cell, count, duration, one_line, storable


def test_a_reason_loses_what_postgresql_cannot_store() -> None:
    assert storable("a\x00b\ud800c") == "a�b?c"


def test_a_long_reason_is_cut_and_says_so() -> None:
    cut = storable("x" * 5_000)
    assert len(cut) == REASON_LIMIT
    assert cut.endswith("…")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("shop.example", "shop.example"),
        ("two\nlines\r\nof\ttext", "two lines of text"),
        ("\x1b[31mred", "[31mred"),
        ("\u202egpj.elpmaxe", "gpj.elpmaxe"),
        ("bücher.example", "bücher.example"),
        (None, ""),
    ],
)
def test_a_log_line_stays_one_line(text: str | None, line: str) -> None:
    assert one_line(text) == line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a|b", r"a\|b"),
        ("<script>alert(1)</script>", r"\<script\>alert(1)\</script\>"),
        ("[x](http://evil.example)", r"\[x\](http:\//evil.example)"),
        ("`code` *b* _i_ ~s~", r"\`code\` \*b\* \_i\_ \~s\~"),
        ("www.evil.example", r"www\.evil.example"),
        ("a\nb", "a b"),
        ("4,960 of 5,000 at 14:05", "4,960 of 5,000 at 14:05"),
        ("shop-1.example", "shop-1.example"),
    ],
)
def test_a_cell_of_the_report_holds_no_markup(text: str, shown: str) -> None:
    assert cell(text) == shown


@pytest.mark.parametrize(
    ("span", "words"),
    [
        (timedelta(seconds=42), "42 s"),
        (timedelta(minutes=35, seconds=59), "35 min"),
        (timedelta(hours=3, minutes=5), "3 h 5 min"),
        (timedelta(days=4, hours=2, minutes=59), "4 d 2 h"),
    ],
)
def test_a_duration_reads_as_people_say_it(span: timedelta, words: str) -> None:
    assert duration(span) == words


def test_a_count_has_its_noun() -> None:
    assert [count(n, "site") for n in (0, 1, 1200)] == ["0 sites", "1 site", "1,200 sites"]
