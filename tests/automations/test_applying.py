"""The automations, applied as often as somebody likes."""

import os
import subprocess
import sys
from typing import Any

import httpx
import pytest
import yaml
from prefect.blocks.notifications import SlackWebhook
from prefect.blocks.system import Secret
from prefect.client.orchestration import SyncPrefectClient
from prefect.events.actions import CallWebhook, DoNothing, SendNotification
from prefect.events.schemas.automations import Automation

from deployments.automations import BLOCK_VARIABLE, apply, load
from deployments.errors import StackError
from deployments.sweeps import DEPLOYMENT
from flows.ui.alerts import ALERT, ENDED
from tests.production import ROOT

DEPLOYMENTS = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]
LOST, PERSON, CRASHED, OVER, SILENCE = (entry["name"] for entry in load())


def present(client: SyncPrefectClient, name: str) -> Automation:
    (automation,) = client.read_automations_by_name(name)
    return automation


def done(applied: dict[str, tuple[str, bool]]) -> set[str]:
    return {what for what, _ in applied.values()}


def test_the_second_time_changes_nothing_and_the_third_what_differs(
    client: SyncPrefectClient, alert_block: str
) -> None:
    assert done(apply(client, load(), None)) == {"created"}
    assert done(apply(client, load(), None)) == {"unchanged"}
    assert isinstance(present(client, PERSON).actions[0], DoNothing)
    before = present(client, SILENCE)
    applied = apply(client, load(), alert_block)
    assert applied[LOST] == ("unchanged", True)
    assert applied[PERSON] == applied[SILENCE] == ("updated", True)
    assert present(client, SILENCE).id == before.id
    assert isinstance(present(client, SILENCE).actions[0], CallWebhook)


def test_one_that_somebody_disabled_stays_disabled(
    client: SyncPrefectClient, alert_block: str, prefect_api: str
) -> None:
    apply(client, load(), None)
    path = f"{prefect_api}/automations/{present(client, SILENCE).id}"
    httpx.patch(path, json={"enabled": False}).raise_for_status()
    assert apply(client, load(), None)[SILENCE][0] == "disabled"
    assert apply(client, load(), alert_block)[SILENCE][0] == "updated"
    assert not present(client, SILENCE).enabled


def test_alerts_go_where_they_went_before_when_no_block_is_named(
    client: SyncPrefectClient, alert_block: str
) -> None:
    apply(client, load(), alert_block)
    before = present(client, PERSON).actions
    assert done(apply(client, load(), None)) == {"unchanged"}
    assert present(client, PERSON).actions == before


def test_a_notification_block_gets_subject_and_body(client: SyncPrefectClient) -> None:
    SlackWebhook(url="http://127.0.0.1:9/never").save("oncall", overwrite=True)
    apply(client, load(), "slack-webhook/oncall")
    (action,) = present(client, SILENCE).actions
    assert isinstance(action, SendNotification)
    assert action.subject.startswith("No sweep of {{ deployment.name }} has ended")
    assert done(apply(client, load(), None)) == {"unchanged"}


@pytest.mark.parametrize(
    ("block", "complaint"),
    [
        ("webhook/missing", "no block 'webhook/missing'"),
        ("nothing", "no block 'nothing'"),
        ("secret/no-alert", "neither a webhook nor a block that sends"),
    ],
)
def test_a_block_that_cannot_take_alerts_is_named(
    client: SyncPrefectClient, block: str, complaint: str
) -> None:
    Secret(value="s3cret").save("no-alert", overwrite=True)
    with pytest.raises(StackError, match=complaint):
        apply(client, load(), block)
    assert client.read_automations() == []


def test_the_command_says_how_to_name_a_block(client: SyncPrefectClient, prefect_api: str) -> None:
    told = command(PREFECT_API_URL=prefect_api)
    assert told.returncode == 0, told.stderr
    assert told.stdout.count("created") == 5
    assert BLOCK_VARIABLE in told.stdout


@pytest.mark.parametrize(
    ("environment", "complaint"),
    [
        ({}, "Set PREFECT_API_URL"),
        ({"PREFECT_API_URL": "http://127.0.0.1:9/api"}, "http://127.0.0.1:9/api refused"),
    ],
)
def test_the_command_without_a_server_says_so(environment: dict[str, str], complaint: str) -> None:
    told = command(**environment)
    assert told.returncode == 1
    assert complaint in told.stderr
    assert "Traceback" not in told.stderr


def command(**environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "deployments.automations"],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def trigger(name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(e for e in load() if e["name"] == name)["trigger"]
    return found


def test_each_automation_waits_for_what_tells_its_situation() -> None:
    assert trigger(PERSON)["expect"] == [ALERT]
    assert trigger(SILENCE)["expect"] == trigger(OVER)["expect"] == [ENDED], "a crash is no end"
    assert trigger(CRASHED)["expect"] == ["prefect.flow-run.Crashed"]
    assert trigger(CRASHED)["after"] == trigger(OVER)["expect"]
    assert trigger(OVER)["after"] == trigger(CRASHED)["expect"]


def test_a_run_is_given_up_after_three_reports_that_did_not_come() -> None:
    for deployment in DEPLOYMENTS:
        environment = deployment["work_pool"]["job_variables"]["env"]
        every = int(environment["PREFECT_FLOWS_HEARTBEAT_FREQUENCY"])
        assert trigger(LOST)["within"] == 3 * every


def test_the_switch_waits_for_three_intervals() -> None:
    (sweep,) = [d for d in DEPLOYMENTS if d["name"] == DEPLOYMENT.split("/")[1]]
    assert trigger(SILENCE)["after"] == trigger(SILENCE)["expect"], "each end begins it anew"
    assert trigger(SILENCE)["within"] == 3 * sweep["schedules"][0]["interval"]


def test_the_flows_that_are_watched_are_ours() -> None:
    flows = [deployment["entrypoint"].rsplit(".", 1)[1] for deployment in DEPLOYMENTS]
    watched = trigger(LOST)["match_related"]["prefect.resource.name"]
    assert watched == [flow.replace("_", "-") for flow in flows]
    for name in (CRASHED, OVER):
        watched = trigger(name)["match_related"]["prefect.resource.name"]
        assert watched == DEPLOYMENT.split("/")[0]
