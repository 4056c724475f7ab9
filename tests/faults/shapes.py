"""What the field really writes into `sites.metadata`, and what a sweep makes of it.

The documents are JSON text, since some of them can't be made by way of a JSON library.
"""

from dataclasses import dataclass
from enum import StrEnum

OLD = '{"provision": {"started_at": "2025-01-15T14:00:00Z"%s}%s}'
WEBHOOK = "https://merchant.example/hook"


class Fate(StrEnum):
    REAPED = "reaped"
    LISTED = "unreadable, and listed"
    INVISIBLE = "not in flight"
    YOUNG = "in flight and not stuck"


@dataclass(frozen=True)
class Shape:
    name: str
    metadata: str
    fate: Fate
    domain: str | None = "shop.example"


def started(value: str) -> str:
    return '{"provision": {"started_at": %s}}' % value  # noqa: UP031


def quoted(text: str) -> str:
    return started(f'"{text}"')


UNREADABLE_TEXTS = {
    "nothing": "",
    "a space": " ",
    "null as a word": "null",
    "None as a word": "None",
    "nil as a word": "nil",
    "undefined": "undefined",
    "JavaScript's invalid date": "Invalid Date",
    "NaN": "NaN",
    "the zero time of Go": "0001-01-01T00:00:00Z",
    "the zero time of .NET": "0001-01-01T00:00:00.0000000",
    "the zero date of MySQL": "0000-00-00 00:00:00",
    "the zero time of Unix": "1970-01-01T00:00:00Z",
    "the minimum of Java": "-1000000000-01-01T00:00Z",
    "the zero date of Excel": "1899-12-30T00:00:00Z",
    "the end of time": "9999-12-31T23:59:59Z",
    "infinity": "infinity",
    "minus infinity": "-infinity",
    "now": "now",
    "today": "today",
    "epoch": "epoch",
    "a date": "2025-01-15",
    "an hour": "2025-01-15T14",
    "a week date": "2025-W03-3T14:00:00Z",
    "an ordinal date": "2025-015T14:00:00Z",
    "the basic format": "20250115T140000Z",
    "an hour that is none": "2025-01-15T24:00:00Z",
    "a leap second": "2016-12-31T23:59:60Z",
    "a leap day that is none": "2025-02-29T14:00:00Z",
    "the thirty-first of April": "2025-04-31T14:00:00Z",
    "ten digits of a fraction": "2025-01-15T14:00:00.1234567890Z",
    "a fraction of nothing": "2025-01-15T14:00:00.Z",
    "an offset out of range": "2025-01-15T14:00:00+15:00",
    "an offset with odd seconds": "2025-01-15T14:00:00+01:00:30",
    "a suffix that must not be ignored": "2025-01-15T14:00:00Z[!u-ca=hebrew]",
    "a zone in brackets without an offset": "2025-01-15T14:00:00[Europe/Berlin]",
    "a zone by name": "2025-01-15T14:00:00 Europe/Berlin",
    "RFC 1123": "Wed, 15 Jan 2025 14:00:00 GMT",
    "asctime": "Wed Jan 15 14:00:00 2025",
    "JavaScript's toString": "Wed Jan 15 2025 14:00:00 GMT+0000 (Coordinated Universal Time)",
    "the American order": "01/15/2025 2:00:00 PM",
    "the German order": "15.01.2025 14:00:00",
    "Unix seconds as text": "1736952336",
    "the date of old .NET": "/Date(1736952336000)/",
    "full-width digits": "２０２５-01-15T14:00:00Z",
    "Arabic digits": "٢٠٢٥-٠١-١٥T14:00:00Z",
    "a minus sign of typographers": "2025−01−15T14:00:00Z",
    "a byte order mark": "\\ufeff2025-01-15T14:00:00Z",
    "a zero-width space": "2025-01-15T14:00:00Z\\u200b",
    "a right-to-left override": "\\u202e2025-01-15T14:00:00Z",
    "a space in front": " 2025-01-15T14:00:00Z",
    "a newline behind": "2025-01-15T14:00:00Z\\n",
    "a second line": "2025-01-15T14:00:00Z\\nx",
    "quotes around it": '\\"2025-01-15T14:00:00Z\\"',
    "SQL": "'; DROP TABLE sites; --",
    "a row of a table": "| x | y |\\n|---|---|",
    "a backslash at its end": "2025-01-15T14:00:00\\\\",
    "a hundred kilobytes": "2" * 100_000,
}

UNREADABLE_VALUES = {
    "Unix seconds": "1736952336",
    "Unix milliseconds": "1736952336000",
    "seconds with a fraction": "1736952336.25",
    "a number beyond all types": "1e400",
    "minus zero": "-0",
    "false": "false",
    "true": "true",
    "an empty list": "[]",
    "a list of its parts": "[2025, 1, 15, 14, 0, 0]",
    "an empty object": "{}",
    "PHP's DateTime": '{"date": "2025-01-15 14:00:00.000000", "timezone_type": 3}',
    "MongoDB's date": '{"$date": "2025-01-15T14:00:00Z"}',
    "protobuf's timestamp": '{"seconds": 1736952336, "nanos": 0}',
}

READABLE_TEXTS = {
    "a minute": "2025-01-15T14:00Z",
    "an offset with seconds, as Rust's crate time prints it": "2025-01-15 15:00:00.0 +01:00:00",
    "a zone in brackets, as Java prints it": "2025-01-15T14:00:00+01:00[Europe/Berlin]",
    "UTC by name, as Ruby and Rust print it": "2025-01-15 14:00:00 UTC",
    "Go's String, with its monotonic clock": "2025-01-15 14:00:00.1 +0000 UTC m=+0.000012345",
    "an offset in hours": "2025-01-15T16:00:00+02",
    "an offset without a colon": "2025-01-15T16:00:00+0200",
    "an offset of three quarters": "2025-01-15T19:45:00+05:45",
    "an offset to the west": "2025-01-15T09:00:00-05:00",
    "a space, and no offset": "2025-01-15 14:00:00",
    "small letters": "2025-01-15t14:00:00z",
    "a comma": "2025-01-15T14:00:00,5Z",
    "nine digits of a fraction": "2025-01-15T14:00:00.123456789Z",
    "a leap day": "2024-02-29T14:00:00Z",
    "an hour that Berlin skipped": "2025-03-30 02:30:00",
    "an hour that New York skipped": "2025-03-09T02:30:00",
    "an hour that New York had twice": "2025-11-02 01:30:00",
    "the first second that is read": "2000-01-01T00:00:00Z",
}

REAPED = {
    "null beside it": OLD % ("", ', "terminal_failure": null, "health_check": null'),
    "a null end stamp": OLD % ("", ', "health_check": {"completed_at": null}'),
    "a list where the health check belongs": OLD % ("", ', "health_check": []'),
    "a text where the health check belongs": OLD % ("", ', "health_check": "ok"'),
    "a number as the webhook": OLD % (', "webhook": 42', ""),
    "an object as the webhook": OLD % (', "webhook": {"url": "https://x.example"}', ""),
    "a list as the webhook": OLD % (', "webhook": ["https://x.example"]', ""),
    "a blank webhook": OLD % (', "webhook": " \\t"', ""),
    "an object as the step": OLD % (', "step": {"name": "dns"}', ""),
    "markup as the step": OLD % (', "step": "<img src=x onerror=alert(1)>|\\n# x"', ""),
    "two starts, of which jsonb keeps the last": (
        '{"provision": {"started_at": "x", "started_at": "2025-01-15T14:00:00Z"}}'
    ),
    "a megabyte beside it": OLD % ("", f', "log": "{"x" * 1_000_000}"'),
    "a hundred thousand keys beside it": OLD
    % ("", ', "log": {' + ", ".join(f'"k{n}": {n}' for n in range(100_000)) + "}"),
    "deep nesting beside it": OLD % ("", ', "log": ' + "[" * 1_000 + "]" * 1_000),
    "an emoji beside it": OLD % ("", ', "mood": "\\ud83d\\ude80"'),
}

ENCODED_TWICE = {
    "a document encoded twice": (
        '"{\\"provision\\": {\\"started_at\\": \\"2025-01-15T14:00:00Z\\"}}"'
    ),
    "one that PHP encoded twice": (
        '"{\\"provision\\":{\\"started_at\\":\\"2025-01-15T14:00:00Z\\"}}"'
    ),
}

INVISIBLE = {
    "JSON null": "null",
    "a number": "42",
    "a text": '"ok"',
    "an empty list": "[]",
    "an empty object": "{}",
    "a list around it": '[{"provision": {"started_at": "2025-01-15T14:00:00Z"}}]',
    "null where the provision belongs": '{"provision": null}',
    "a list where the provision belongs": '{"provision": []}',
    "a text where the provision belongs": '{"provision": "2025-01-15T14:00:00Z"}',
    "double encoding further down": '{"provision": "{\\"started_at\\": \\"2025\\"}"}',
    "a null start": started("null"),
    "keys of another case": '{"Provision": {"Started_At": "2025-01-15T14:00:00Z"}}',
    "a key with a dot": '{"provision.started_at": "2025-01-15T14:00:00Z"}',
    "an end that is false": OLD % ("", ', "health_check": {"completed_at": false}'),
    "an end that is empty": OLD % ("", ', "health_check": {"completed_at": ""}'),
    "a failure that is empty": OLD % ("", ', "terminal_failure": {}'),
    "a failure that is false": OLD % ("", ', "terminal_failure": false'),
}

DOMAINS = {
    "no domain": None,
    "an empty domain": "",
    "markup": "<script>alert(1)</script>",
    "Markdown": "[click](https://evil.example) **x** `y`",
    "pipes and newlines": "a|b\n|c|\r\n# d",
    "right-to-left text": "متجر.example",
    "a right-to-left override": "gro.\u202eelpmaxe",
    "a terminal's escape": "\x1b[2J\x1b[1;31mred",
    "an emoji": "🚀.example",
    "quotes": "'\"; DROP TABLE sites; --",
    "placeholders": "%s %(x)s {y} :z $1",
    "ten thousand characters": "x" * 10_000,
}

SHAPES = [
    *(Shape(f"start: {n}", quoted(t), Fate.LISTED) for n, t in UNREADABLE_TEXTS.items()),
    *(Shape(f"start: {n}", started(v), Fate.LISTED) for n, v in UNREADABLE_VALUES.items()),
    *(Shape(f"start: {n}", quoted(t), Fate.REAPED) for n, t in READABLE_TEXTS.items()),
    *(Shape(f"document: {n}", text, Fate.REAPED) for n, text in REAPED.items()),
    *(Shape(f"document: {n}", text, Fate.LISTED) for n, text in ENCODED_TWICE.items()),
    *(Shape(f"document: {n}", text, Fate.INVISIBLE) for n, text in INVISIBLE.items()),
    *(Shape(f"domain: {n}", OLD % ("", ""), Fate.REAPED, text) for n, text in DOMAINS.items()),
]

REFUSED_BY_JSONB = {
    "a null byte in a value": '{"provision": {"started_at": "2025\\u0000"}}',
    "a null byte beside it": OLD % ("", ', "log": "\\u0000"'),
    "half a surrogate pair": OLD % ("", ', "log": "\\ud83d"'),
    "JSON with a comma too many": '{"provision": {},}',
    "a single quote": "{'provision': {}}",
    "NaN": started("NaN"),
}
