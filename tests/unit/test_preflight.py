"""What is wrong with a database, in the words that an operator reads."""

from dataclasses import replace
from datetime import timedelta

import pytest

from provisioning.session import SESSION
from provisioning.sweep.catalog import TO_READ, TO_WRITE, Facts
from provisioning.sweep.preflight import complaint

READY = Facts(
    database="shop",
    account="reaper",
    encoding="UTF8",
    standby=False,
    settings=SESSION,
    kind="r",
    lookalikes=(),
    columns={"id": "bigint", "domain": "text", "metadata": "jsonb"},
    missing=(),
    function=True,
    index="ready",
    guarded=(),
    lacking=(),
    schemas=(),
    execute=True,
    ahead=timedelta(0),
)


def test_a_ready_database_has_nothing_wrong() -> None:
    assert complaint(READY, writes=True) is None


def test_a_partitioned_table_is_a_table() -> None:
    assert complaint(replace(READY, kind="p"), writes=True) is None


def test_a_dry_run_needs_no_right_to_write() -> None:
    reader = replace(READY, lacking=TO_WRITE)
    assert complaint(reader, writes=False) is None
    assert "lacks rights" in (complaint(reader, writes=True) or "")


def test_a_standby_is_told_alone() -> None:
    """What else is wrong there is the primary's to mend."""
    problem = complaint(replace(READY, standby=True, index=None, kind=None), writes=True) or ""
    assert "standby" in problem
    assert "index" not in problem


@pytest.mark.parametrize(
    ("wrong", "said", "remedy"),
    [
        ({"standby": True}, "standby", "target_session_attrs=read-write"),
        ({"kind": None}, "no table `sites`", "PROVISION_DATABASE_URL"),
        (
            {"kind": None, "lookalikes": ("platform.sites", "public.tenants")},
            "There is platform.sites, public.tenants",
            "PROVISION_SITES_TABLE",
        ),
        ({"kind": "v"}, "is a view", "PROVISION_SITES_TABLE"),
        ({"columns": {"id": "bigint", "metadata": "jsonb"}}, "`domain`", "PROVISION_DATABASE_URL"),
        ({"columns": READY.columns | {"metadata": "json"}}, "of type json,", "ALTER TABLE sites"),
        ({"function": None}, "migrations have not run", "alembic upgrade head"),
        ({"function": False}, "not the one of this program", "alembic upgrade head"),
        ({"missing": ("notices",)}, "notices missing", "alembic upgrade head"),
        ({"index": None}, "index sites_provision_in_flight is missing", "alembic"),
        ({"index": "invalid"}, "is invalid", "alembic upgrade head"),
        ({"index": "other"}, "another one than this program's", "alembic upgrade head"),
        ({"lacking": TO_READ[-1:]}, "reaper lacks rights", "GRANT SELECT ON sweep_ends"),
        ({"schemas": ("platform",)}, "lacks rights", "GRANT USAGE ON SCHEMA platform TO reaper;"),
        ({"execute": False}, "lacks rights", "GRANT EXECUTE ON FUNCTION"),
        ({"guarded": ("sites", "notices")}, "on sites and notices", "BYPASSRLS"),
        ({"encoding": "SQL_ASCII"}, "encoding SQL_ASCII", "UTF8"),
        ({"settings": {}}, "not in force", "PROVISION_DATABASE_POOLED=true"),
        ({"ahead": timedelta(hours=2)}, "2 h ahead of the worker's", "set the wrong one right"),
        ({"ahead": -timedelta(minutes=6)}, "6 min behind the worker's", "set the wrong one right"),
    ],
)
def test_each_obstacle_is_named_with_what_to_do(
    wrong: dict[str, object], said: str, remedy: str
) -> None:
    problem = complaint(replace(READY, **wrong), writes=True)  # type: ignore[arg-type]
    assert problem
    assert said in problem
    assert remedy in problem
    assert ".." not in problem
    assert problem.endswith((".", ";"))
