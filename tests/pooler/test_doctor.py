"""The doctor at a pooler: what is said where nobody told the program that there is one."""

import pytest

from provisioning.settings import settings
from tests.cli.conftest import Tool
from tests.pooler.bouncer import Bouncer


@pytest.mark.guarantee(
    fault="the doctor behind PgBouncer, announced and not",
    holds="each line is ok; not announced, the setting that is missing is named",
)
def test_a_pooler_is_found_where_it_was_not_announced(
    pooler: Bouncer, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = Tool(monkeypatch)
    tool.set(PROVISION_DATABASE_URL=pooler.through(database_url))
    try:
        found = tool.doctor(code=1)
        wrong = [finding for level, finding in found.values() if level == "wrong"]
        assert len(wrong) == 1
        assert "PROVISION_DATABASE_POOLED=true" in wrong[0]
        tool.set(PROVISION_DATABASE_POOLED="true")
        assert {level for level, _ in tool.doctor().values()} == {"ok", "warning"}
    finally:
        settings.cache_clear()
