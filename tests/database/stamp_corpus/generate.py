"""Writes instants.tsv: what each text of texts.json is read as, by the second reader.

The texts are inputs of public test suites, each also with a year 20xx in place of 19xx, since
stamps before 2000 are unreadable on purpose:

- JSON-Schema-Test-Suite, tests/draft2020-12/optional/format/date-time.json
- toml-test, tests/valid/datetime
- test262, Temporal.Instant.from and the tests of RFC 9557's annotations
- ciso8601, the products of its generate_test_timestamps.py and the texts of tests.py
- CPython 3.13, the fromisoformat tests of Lib/test/datetimetester.py
- prints: what Java, Go, Ruby, Rust, .NET, PHP, JavaScript, Python and PostgreSQL print, and texts
  that only look like it

Run: python -m tests.database.stamp_corpus.generate
"""

import json
from pathlib import Path

from tests.database.stamp_corpus.reader import read

FOLDER = Path(__file__).parent
TABLE = FOLDER / "instants.tsv"
UNREADABLE = "unreadable"


def lines() -> list[str]:
    """The table: suite, text as JSON, and the instant in UTC or `unreadable`."""
    suites: dict[str, list[str]] = json.loads((FOLDER / "texts.json").read_text())
    table = []
    for suite, texts in suites.items():
        moved = [f"20{text[2:]}" for text in texts if text.startswith("19")]
        for text in dict.fromkeys([*texts, *moved]):
            instant = read(text)
            table.append(f"{suite}\t{json.dumps(text)}\t{(instant and instant.isoformat()) or ''}")
    return [line if not line.endswith("\t") else line + UNREADABLE for line in table]


if __name__ == "__main__":
    TABLE.write_text("\n".join(lines()) + "\n")
