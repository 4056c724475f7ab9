"""What an operator finds afterwards: names, reports, events, logs."""

import os
import subprocess
import sys
from typing import Any

import httpx
import pytest
from prefect.client.orchestration import PrefectClient

from tests.flow.conftest import Sweep
from tests.flow.traces import events, flow_run, logs_of, report_of, run_id, task_runs
from tests.sites import Sites, site


async def test_the_names_say_what_each_run_is(sweep: Sweep, sites: Sites) -> None:
    await sites.add_started(42)
    dry, real = await sweep(dry_run=True), await sweep()
    assert (await flow_run(dry)).name.startswith("dry run 2")
    assert (await flow_run(real)).name.startswith("sweep 2")
    names = [
        (await task_runs(real, name, 1))[0].name
        for name in ("query_stuck_sites", "check_cap", "refresh_site", "fail_site_terminally")
    ]
    assert names == [
        "query stuck sites",
        "check cap: 1 found",
        f"refresh site {site(42)} (shop-42.example)",
        f"fail site {site(42)} (shop-42.example)",
    ]


async def test_the_report_lists_every_site_with_its_outcome(
    sweep: Sweep, sites: Sites, prefect_api: str
) -> None:
    await sites.add_started(1, provision={"step": "dns"})
    await sites.add(2, {"provision": {"started_at": "next | tuesday"}}, domain="<b>x</b>\n|")
    report = await report_of(await sweep(), prefect_api)
    assert f"| {site(1)} | shop-1.example | 1 h 30 min | dns | reaped |" in report
    assert rf"| {site(2)} | \<b\>x\</b\> \| | next \| tuesday |" in report


async def test_each_reaped_site_and_each_refusal_leave_an_event(
    sweep: Sweep, sites: Sites, prefect_api: str
) -> None:
    await sites.add_started(42_000_001)
    reaped = await sweep()
    await sites.add_many(26)
    refused = await sweep()
    (event,) = await events(prefect_api, f"provision.site.{site(42_000_001)}")
    assert event["event"] == "provision.site.reaped"
    named = f"site {site(42_000_001)} (shop-42000001.example)"
    assert event["resource"]["prefect.resource.name"] == named
    assert event["payload"]["flow_run_id"] == str(run_id(reaped))
    (event,) = await events(prefect_api, f"provision.sweep.{run_id(refused)}")
    assert event["event"] == "provision.sweep.refused"
    assert (event["payload"]["found"], event["payload"]["cap"]) == (26, 25)


@pytest.mark.guarantee(
    fault="the API takes no report",
    holds="every site is handled all the same",
)
async def test_an_api_that_takes_no_report_leaves_no_site_half_done(
    sweep: Sweep, sites: Sites, monkeypatch: pytest.MonkeyPatch, prefect_api: str
) -> None:
    async def away(*_arguments: Any, **_more: Any) -> None:
        raise httpx.ConnectError("the API is away")

    monkeypatch.setattr(PrefectClient, "create_artifact", away)
    monkeypatch.setattr("flows.ui.publish.emit_event", lambda **_event: 1 / 0)
    await sites.add_started(1)
    await sites.add_started(2)
    state = await sweep()
    assert state.name == "Reaped"
    assert await sites.ledger() == [1, 2]
    assert "was not published" in await logs_of(state, prefect_api, "was not published")


def test_the_installed_project_gives_the_state_by_name(
    database_url: str, prefect_api: str, tmp_path: Any
) -> None:
    code = (
        "import asyncio\n"
        "from flows.reap_stuck_provisions import reap_stuck_provisions\n"
        "print(asyncio.run(reap_stuck_provisions(return_state=True)).name)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=os.environ | {"PROVISION_DATABASE_URL": database_url, "PREFECT_API_URL": prefect_api},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.strip() == "Clean", done.stderr
