"""Text from outside, made safe to store, to log and to show."""

import re
import unicodedata
from datetime import timedelta

REASON_LIMIT = 1_000
"""Characters of a reason that are kept."""

_MARKUP = re.compile(r"([\\`*_\[\]<>#!|~&@$]|(?<=:)/|\b(?<=www)\.)", re.IGNORECASE)


def storable(text: str, limit: int = REASON_LIMIT) -> str:
    """Cut to `limit` characters, without what PostgreSQL can't store: NUL and lone surrogates."""
    clean = text.replace("\x00", "�").encode("utf-8", "replace").decode("utf-8")
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


def one_line(text: str | None, limit: int = 100) -> str:
    """For a log line or a name: no line breaks, control characters or bidirectional overrides."""
    visible = "".join(
        character if unicodedata.category(character)[0] != "C" else " "
        for character in storable(text or "", limit)
    )
    return " ".join(visible.split())


def cell(text: str | None, limit: int = 100) -> str:
    """For a cell of a Markdown table: one line, and nothing in it is markup or a link."""
    return _MARKUP.sub(r"\\\1", one_line(text, limit))


def site_name(site_id: object, domain: str) -> str:
    """How every log line, report and task run names a site."""
    return f"site {site_id} ({domain or 'no domain'})"


def duration(span: timedelta) -> str:
    """A span of time as people say it: "42 s", "35 min", "3 h 5 min", "4 d 2 h"."""
    seconds = int(span.total_seconds())
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if minutes < 1:
        return f"{seconds} s"
    if hours < 1:
        return f"{minutes} min"
    if days < 1:
        return f"{hours} h {minutes % 60} min" if minutes % 60 else f"{hours} h"
    return f"{days} d {hours % 24} h" if hours % 24 else f"{days} d"


def count(number: int, noun: str) -> str:
    """A number and its noun: "1 site", "1,200 sites"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def sentences(*parts: str) -> str:
    """Parts of a message as sentences, each with one end: "Nothing was stuck. In flight: 3."."""
    return " ".join(part if part.endswith((".", "!", "?", ";")) else f"{part}." for part in parts)
