"""What is wrong with a database, in the words that an operator reads."""

from dataclasses import replace

import pytest

from provisioning.sweep.preflight import Facts, complaint

READY = Facts(
    database="shop",
    account="reaper",
    standby=False,
    metadata_type="jsonb",
    function=True,
    index_valid=True,
    tables=True,
    may_read=True,
    may_write=True,
)


def test_a_ready_database_has_nothing_wrong() -> None:
    assert complaint(READY, writes=True) is None


def test_a_dry_run_needs_no_right_to_write() -> None:
    reader = replace(READY, may_write=False)
    assert complaint(reader, writes=False) is None
    assert "lacks rights" in (complaint(reader, writes=True) or "")


@pytest.mark.parametrize(
    ("wrong", "said", "remedy"),
    [
        ({"standby": True}, "standby", "target_session_attrs=read-write"),
        ({"metadata_type": None}, "no table `sites`", "PROVISION_DATABASE_URL"),
        ({"metadata_type": "json"}, "of type json", "ALTER TABLE sites"),
        ({"function": False}, "migrations have not run", "alembic upgrade head"),
        ({"tables": False}, "migrations have not run", "alembic upgrade head"),
        ({"index_valid": None}, "index sites_provision_in_flight is missing", "alembic"),
        ({"index_valid": False}, "is invalid", "alembic upgrade head"),
        ({"may_read": False}, "reaper lacks rights", "SELECT"),
    ],
)
def test_each_obstacle_is_named_with_what_to_do(
    wrong: dict[str, object], said: str, remedy: str
) -> None:
    problem = complaint(replace(READY, **wrong), writes=True)  # type: ignore[arg-type]
    assert problem
    assert said in problem
    assert remedy in problem
