"""What the caller's environment means for the stack and for the programs in it."""

from pathlib import Path

import pytest

from deployments.errors import StackError
from deployments.options import read_options, stack_environment

CALLER = {
    "PATH": "/bin",
    "PREFECT_API_KEY": "of the caller's own server",
    "PREFECT_PROFILE": "work",
    "PROVISION_DATA_DIR": "/tmp/stack",
}


def test_defaults() -> None:
    options = read_options({})
    assert options.ui_port == 4200
    assert options.database_url is None
    assert options.api_url is None


@pytest.mark.parametrize("port", ["0", "65536", "http", "-1", "4200.0"])
def test_a_port_that_is_none_is_named(port: str) -> None:
    with pytest.raises(StackError, match=f"PROVISION_UI_PORT.*'{port}'"):
        read_options({"PROVISION_UI_PORT": port})


def test_a_server_of_its_own_hears_nothing_of_the_callers() -> None:
    caller = CALLER | {"PROVISION_UI_PORT": "4300", "NO_PROXY": "intranet"}
    environment = stack_environment(read_options(caller), caller)
    assert "PREFECT_API_KEY" not in environment
    assert "PREFECT_PROFILE" not in environment
    assert environment["PREFECT_API_URL"] == "http://127.0.0.1:4300/api"
    assert environment["PREFECT_HOME"] == str(Path("/tmp/stack").resolve() / "prefect")
    assert environment["PREFECT_SERVER_ANALYTICS_ENABLED"] == "false"
    assert environment["NO_PROXY"] == "intranet,127.0.0.1"
    assert environment["PATH"] == "/bin"


SERVER = CALLER | {"PREFECT_API_URL": "https://prefect.example/api"}
DATABASE = {"PROVISION_DATABASE_URL": "postgresql://reaper@db.example/platform"}


def test_a_server_that_the_environment_happens_to_name_is_not_joined() -> None:
    options = read_options(SERVER)
    assert options.api_url is None
    assert options.ignored_api_url
    assert stack_environment(options, SERVER)["PREFECT_API_URL"] == "http://127.0.0.1:4200/api"


def test_samples_never_join_a_server_that_others_use() -> None:
    with pytest.raises(StackError, match="needs PROVISION_DATABASE_URL"):
        read_options(SERVER, ["--use-prefect-server"])
    with pytest.raises(StackError, match="needs PREFECT_API_URL"):
        read_options(DATABASE, ["--use-prefect-server"])


def test_a_database_of_ones_own_is_reaped_only_when_told_to() -> None:
    assert not read_options(DATABASE).reap
    assert read_options(DATABASE, ["--reap"]).reap
    with pytest.raises(StackError, match="PROVISION_DATABASE_URL"):
        read_options({}, ["--reap"])


def test_the_callers_server_is_used_with_the_callers_key_and_without_the_profile() -> None:
    caller = SERVER | DATABASE
    environment = stack_environment(read_options(caller, ["--use-prefect-server"]), caller)
    assert environment["PREFECT_API_URL"] == "https://prefect.example/api"
    assert environment["PREFECT_API_KEY"] == CALLER["PREFECT_API_KEY"]
    assert environment["PREFECT_HOME"] == str(Path("/tmp/stack").resolve() / "prefect")
