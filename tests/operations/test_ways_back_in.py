"""From a refusal back to reaped sites, through a real server and worker. F09, F10 and F25."""

import asyncio
import re
from typing import Any

import httpx
import pytest

from deployments.sweeps import DEPLOYMENT
from provisioning.settings import settings
from tests.cli.conftest import Tool
from tests.production import Production
from tests.sites import YOUNG, Sites, stamp

pytestmark = pytest.mark.e2e


async def nothing_changed(sites: Sites) -> bool:
    return not (await sites.failed() or await sites.ledger() or await sites.notices())


@pytest.mark.long
async def test_exactly_the_cap_acts_and_one_more_refuses(
    production: Production, platform: Sites
) -> None:
    """F09."""
    assert (await production.sweep())["state_name"] == "Clean"
    await platform.add_many(25)
    assert (await production.sweep())["state_name"] == "Reaped"
    assert await platform.failed() == list(range(1, 26))
    await platform.run("TRUNCATE sites, terminal_failures, notices CASCADE")
    await platform.add_many(25)
    for number in (26, 27):
        await platform.add_many(1, first=number)
        run = await production.sweep()
        assert (run["state_name"], run["state_type"]) == ("Refused", "FAILED")
        assert (
            f"{number} stuck sites, over the cap of 25 a run: nothing was changed"
            in (run["state"]["message"])
        )
        assert await nothing_changed(platform)


async def test_retry_asks_the_database_again(production: Production, platform: Sites) -> None:
    """F10: the worker persists results by default, and the retry looks at none of them."""
    assert production.environment["PREFECT_RESULTS_PERSIST_BY_DEFAULT"] == "true"
    await platform.add_many(26)
    refused = await production.sweep()
    assert refused["state_name"] == "Refused"
    await platform.merge(7, {"health_check": {"completed_at": stamp(YOUNG)}})
    production.retry(refused["id"])
    again = await production.ended(refused["id"])
    assert (again["state_name"], again["run_count"]) == ("Reaped", 2)
    assert await platform.ledger() == [site_id for site_id in range(1, 27) if site_id != 7]


@pytest.mark.long
async def test_an_approval_from_a_shell_lets_through_what_was_listed_and_nothing_since(
    production: Production, platform: Sites
) -> None:
    """F25. The approval through the form is in tests/browser."""
    await platform.add_many(26)
    refused = await production.sweep()
    await platform.add_many(26, first=101)
    command = ("deployment", "run", DEPLOYMENT, "--param", f"approve_refusal={refused['id']}")
    told = await asyncio.to_thread(production.shell, *command)
    (run_id,) = re.findall(r"flow-run/([0-9a-f-]{36})", told)
    approval = await production.ended(run_id)
    assert approval["state_name"] == "Reaped"
    assert approval["name"].startswith(f"approval of {refused['id'][:8]}")
    assert await platform.ledger() == list(range(1, 27))
    assert (await production.sweep())["state_name"] == "Refused"
    assert await platform.ledger() == list(range(1, 27))


@pytest.mark.long
async def test_a_raised_cap_lasts_for_its_run_and_is_copied_with_it(
    production: Production, platform: Sites
) -> None:
    await platform.add_many(26)
    raised = await production.sweep(max_reap_per_run=26)
    assert raised["state_name"] == "Reaped"
    await platform.add_many(26, first=101)
    assert (await production.sweep())["state_name"] == "Refused"
    assert production.deployment["parameters"]["max_reap_per_run"] == 25
    copy = await production.ended(production.copy_to_new_run(raised["id"]))
    assert copy["id"] != raised["id"]
    assert copy["parameters"] == raised["parameters"]
    assert copy["state_name"] == "Reaped"


async def test_the_doctor_finds_an_installation_that_sweeps_in_order(
    production: Production, platform: Sites, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await production.sweep())["state_name"] == "Clean"
    tool = Tool(monkeypatch)
    tool.set(PROVISION_DATABASE_URL=production.database_url, PREFECT_API_URL=production.api)
    with production.scheduled_in(seconds=3600):
        found = await asyncio.to_thread(tool.doctor)
    settings.cache_clear()
    for subject in ("connection", "last sweep", "schedule", "pool", "last run"):
        assert found[subject][0] == "ok", found
    assert "workers online: " in found["pool"][1]  # one that was killed is, for a while
    for subject in ("last sweep", "last run"):
        assert "Clean" in found[subject][1]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"stuck_after_minutes": 0}, ["stuck_after_minutes", "minimum of 1"]),
        ({"max_reap_per_run": 0}, ["max_reap_per_run", "minimum of 1"]),
        ({"max_reap_per_hour": -1}, ["max_reap_per_hour", "minimum of 1"]),
        ({"approve_refusal": "nope"}, ["approve_refusal", "nope"]),
    ],
)
def test_a_value_out_of_range_is_refused_with_its_field_and_limit(
    production: Production, wrong: dict[str, Any], said: list[str]
) -> None:
    with pytest.raises(httpx.HTTPStatusError) as refused:
        production.custom_run(**wrong)
    assert refused.value.response.status_code == 409
    for words in said:
        assert words in refused.value.response.text


async def test_a_scheduled_sweep_says_so_in_its_name(
    production: Production, platform: Sites
) -> None:
    await platform.add_many(3)
    with production.scheduled_in(seconds=3) as run_id:
        run = await production.ended(run_id)
    assert re.fullmatch(r"sweep \d{4}-\d\d-\d\d \d\d:\d\d UTC", run["name"])
    assert run["state_name"] == "Reaped"
    assert await platform.ledger() == [1, 2, 3]
