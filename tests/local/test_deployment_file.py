"""The facts of prefect.yaml that hold the schedule still and keep slots from being stranded."""

import inspect
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect import Flow
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, PREFECT_CLIENT_RETRY_JITTER_FACTOR

from deployments.sweeps import DEPLOYMENT, WORK_POOL
from flows.reap_stuck_provisions import FLOW_TIMEOUT

FILE = Path(__file__).parents[2] / "prefect.yaml"


@pytest.fixture
def sweep() -> dict[str, Any]:
    flow_name, deployment_name = DEPLOYMENT.split("/")
    for deployment in yaml.safe_load(FILE.read_text())["deployments"]:
        if deployment["name"] == deployment_name:
            found: dict[str, Any] = deployment
            assert _flow(found).name == flow_name
            return found
    pytest.fail(f"{deployment_name} is not in prefect.yaml")


def _flow(deployment: dict[str, Any]) -> Flow[..., Any]:
    module, name = deployment["entrypoint"].rsplit(".", 1)
    flow = getattr(import_module(module), name)
    assert isinstance(flow, Flow)
    return flow


def test_the_interval_is_anchored_and_named(sweep: dict[str, Any]) -> None:
    (schedule,) = sweep["schedules"]
    assert schedule["interval"] == 300
    assert schedule["anchor_date"]
    assert schedule["timezone"] == "UTC"
    assert schedule["slug"]


def test_a_redeploy_does_not_say_whether_the_schedule_is_active(sweep: dict[str, Any]) -> None:
    assert "active" not in sweep["schedules"][0]
    assert "paused" not in sweep


def test_no_concurrency_limit_can_strand_a_slot(sweep: dict[str, Any]) -> None:
    assert "concurrency_limit" not in sweep
    assert "concurrency_limit" not in sweep["work_pool"]


def test_runs_need_no_code_but_what_is_installed(sweep: dict[str, Any]) -> None:
    assert yaml.safe_load(FILE.read_text())["pull"] == []
    assert "/" not in sweep["entrypoint"]
    assert ":" not in sweep["entrypoint"]


def test_runs_go_to_the_pool_that_the_local_stack_serves(sweep: dict[str, Any]) -> None:
    assert sweep["work_pool"]["name"] == WORK_POOL


def test_the_parameters_are_the_flows_own_defaults(sweep: dict[str, Any]) -> None:
    parameters = inspect.signature(_flow(sweep).fn).parameters
    assert sweep["parameters"].items() <= {n: p.default for n, p in parameters.items()}.items()


def test_every_run_state_is_explained(sweep: dict[str, Any]) -> None:
    for name in ("Clean", "Reaped", "Rehearsed", "Refused", "Incomplete", "Failed", "Crashed"):
        assert f"`{name}`" in sweep["description"]


def test_each_run_reports_that_it_is_alive() -> None:
    for deployment in yaml.safe_load(FILE.read_text())["deployments"]:
        environment = deployment["work_pool"]["job_variables"]["env"]
        assert environment == {
            "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
            "PREFECT_API_REQUEST_TIMEOUT": "15",
        }


def test_an_api_that_hangs_holds_the_end_of_a_run_up_for_less_than_its_timeout(
    sweep: dict[str, Any],
) -> None:
    """The end is one call, and another one for its token; Prefect tries each again, and again."""
    seconds = float(sweep["work_pool"]["job_variables"]["env"]["PREFECT_API_REQUEST_TIMEOUT"])
    tries = PREFECT_CLIENT_MAX_RETRIES.value() + 1
    pauses = sum(2.0**n for n in range(1, tries))
    longest = 1 + PREFECT_CLIENT_RETRY_JITTER_FACTOR.value()
    assert 2 * (tries * seconds + pauses * longest) < FLOW_TIMEOUT / 2
