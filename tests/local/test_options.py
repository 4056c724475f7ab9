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


def test_the_callers_server_is_used_with_the_callers_key_and_without_the_profile() -> None:
    caller = CALLER | {"PREFECT_API_URL": "https://prefect.example/api"}
    environment = stack_environment(read_options(caller), caller)
    assert environment["PREFECT_API_URL"] == "https://prefect.example/api"
    assert environment["PREFECT_API_KEY"] == CALLER["PREFECT_API_KEY"]
    assert environment["PREFECT_HOME"] == str(Path("/tmp/stack").resolve() / "prefect")
