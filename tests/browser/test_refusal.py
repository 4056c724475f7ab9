"""What an operator sees and clicks, from a refusal to the reaped sites."""

import re
from typing import Any
from uuid import UUID

import pytest
from playwright.async_api import Page, expect

from deployments.sweeps import DEPLOYMENT
from flows.ui.links import approval_form
from tests.browser.conftest import Screenshot
from tests.production import Production
from tests.sites import YOUNG, Sites, stamp

pytestmark = pytest.mark.e2e

RUN_PAGE = re.compile(r"/v2/runs/flow-run/")
NAME = DEPLOYMENT.split("/")[1]


async def open_form(page: Page) -> None:
    """From the page of a run or of the deployment to the form of a custom run."""
    await page.get_by_role("button", name="Run", exact=True).click()
    await page.get_by_role("menuitem", name="Custom run").click()
    await expect(page.get_by_text("Enforce Parameter Schema")).to_be_visible()


async def open_approval(page: Page, refused: dict[str, Any]) -> None:
    """From the note that a form leaves to the page of the run that it started, once that reaped.

    Loaded again, for the page asks no more for the name of a run that ended. The link is followed
    without a click, which on a busy machine comes after the four seconds that the note stays.
    """
    address = await page.get_by_role("link", name="View run").get_attribute("href")
    assert address
    assert RUN_PAGE.search(address)
    await page.goto(address)
    await badge(page, "Reaped")
    await page.reload()
    await badge(page, "Reaped")
    await expect(page.get_by_text(f"approval of {refused['id'][:8]}").first).to_be_visible()


async def badge(page: Page, state: str) -> None:
    """Wait until the run's page shows that state."""
    await expect(page.get_by_text(state, exact=True).first).to_be_visible(timeout=60_000)


@pytest.mark.long
async def test_the_form_has_limits_and_says_what_each_value_does(
    page: Page, production: Production, screenshot: Screenshot
) -> None:
    await page.goto(f"/v2/deployments/deployment/{production.deployment['id']}")
    await open_form(page)
    for words in (
        "How long ago a provisioning must have started",
        "the run reaps none of them and ends Refused",
        "The cap of a slow outage",
        "The id of a run that ended Refused in the last 24 hours",
        "write nothing",
    ):
        await expect(page.get_by_text(words)).to_be_visible()
    for field, default in (
        ("stuck_after_minutes", "30"),
        ("max_reap_per_run", "25"),
        ("max_reap_per_hour", "100"),
    ):
        box = page.get_by_label(field)
        await expect(box).to_have_value(default)
        await box.fill("0")
        await page.get_by_role("button", name="Submit").click()
        message = await box.evaluate("box => box.validationMessage")
        assert message == "Value must be greater than or equal to 1."
        await box.fill(default)
    assert not RUN_PAGE.search(page.url), "nothing was started"
    await screenshot("form", height=820)


async def test_the_walk_from_a_refusal_to_the_reaped_sites(
    page: Page, production: Production, platform: Sites, screenshot: Screenshot
) -> None:
    """The README's walk, step by step."""
    await platform.add_many(29)
    await platform.add_many(2, first=30, step="certificate")
    refused = await production.sweep()
    await platform.add_many(26, first=101)

    # 1: the page of the run, which the alert links to
    await page.goto(f"/v2/runs/flow-run/{refused['id']}")
    await badge(page, "Refused")
    await expect(page.get_by_text("over the cap of 25 a run").first).to_be_attached()
    await screenshot("refusal")

    # 2: its report
    await page.get_by_role("tab", name="Artifacts").click()
    await page.get_by_role("link", name="sweep-report").click()
    await expect(page.get_by_text("29 of 31 stopped at step dns").first).to_be_visible()
    await expect(page.get_by_role("heading", name="What to do")).to_be_visible()
    await expect(page.get_by_role("cell", name="shop-31.example")).to_be_attached()
    value = page.locator("pre", has_text=refused["id"]).first
    await expect(value).to_be_visible()
    await screenshot("report", height=1060)

    # 3: the form
    await page.get_by_role("link", name=refused["name"]).click()
    await page.get_by_role("link", name=NAME).click()
    await open_form(page)

    # 4: the value
    await page.get_by_text("str", exact=True).click()
    await page.locator("textarea:visible").first.fill(refused["id"])
    await screenshot("approval-form", height=820)
    await page.get_by_role("button", name="Submit").click()

    # 5: the run that it started
    await open_approval(page, refused)
    await screenshot("approval")
    assert await platform.failed() == list(range(1, 32))


@pytest.mark.long
async def test_retry_asks_again(
    page: Page, production: Production, platform: Sites, screenshot: Screenshot
) -> None:
    await platform.add_many(26)
    refused = await production.sweep()
    await platform.merge(7, {"health_check": {"completed_at": stamp(YOUNG)}})
    await page.goto(f"/v2/runs/flow-run/{refused['id']}")
    await page.get_by_role("button", name="Open menu").click()
    await page.get_by_role("menuitem", name="Retry").click()
    await page.get_by_role("button", name="Retry").click()
    await badge(page, "Reaped")
    assert len(await platform.failed()) == 25


@pytest.mark.long
async def test_a_link_opens_the_form_filled_in(
    page: Page, production: Production, platform: Sites
) -> None:
    """As `make outage` prints it, and as the report of a refusal has it."""
    await platform.add_many(26)
    refused = await production.sweep()
    await page.goto(approval_form(UUID(production.deployment["id"]), UUID(refused["id"])))
    await expect(page.locator("textarea:visible").first).to_have_value(refused["id"])
    await expect(page.get_by_label("max_reap_per_run")).to_have_value("25")
    await page.get_by_role("button", name="Submit").click()
    await open_approval(page, refused)
    assert len(await platform.failed()) == 26
