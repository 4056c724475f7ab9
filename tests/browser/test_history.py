"""Which sweep failed a site, when, and why: the pages that answer it."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.async_api import Locator, Page, expect

from tests.browser.conftest import Screenshot
from tests.production import Production, until
from tests.sites import Sites, site

pytestmark = pytest.mark.e2e


def link_to(page: Page, run: dict[str, Any]) -> Locator:
    return page.locator(f"a[href*='{run['id']}']")


@pytest.mark.long
async def test_the_history_names_the_sweep_that_failed_a_site(
    page: Page, production: Production, platform: Sites, screenshot: Screenshot
) -> None:
    rehearsed = await production.sweep(dry_run=True)
    await platform.add_many(3, first=7_041)
    reaped = await production.sweep()
    await platform.add_many(26, first=101)
    refused = await production.sweep()

    await page.goto("/v2/runs")
    for run in (rehearsed, reaped, refused):
        await expect(link_to(page, run).first).to_be_visible()
        await expect(page.get_by_text(run["state_name"], exact=True).first).to_be_visible()
    await screenshot("runs", top=590, height=490)

    await page.goto("/v2/runs?state=Reaped")
    await expect(link_to(page, reaped).first).to_be_visible()
    await expect(page.get_by_text("Refused", exact=True)).to_have_count(0)

    reaping = ("provision.site.reaped", f"provision.site.{site(7_042)}")
    await until(lambda: bool(production.events(*reaping)), 20)
    (stored,) = production.events(*reaping)
    assert stored["payload"]["reason"].startswith("watchdog: exceeded the 30-minute threshold")
    # The feed ends with the last full minute.
    await page.clock.set_system_time(datetime.now(UTC) + timedelta(minutes=1))
    await page.goto(f"/v2/events?resource={json.dumps([f'provision.site.{site(7_042)}'])}")
    event = page.get_by_role("listitem").filter(has_text="provision.site.reaped")
    await expect(event).to_contain_text("shop-7042.example")
    await expect(event).to_contain_text(reaped["name"])
    await event.get_by_text("Show raw event").click()
    await expect(event).to_contain_text(f"provision.site.{site(7_042)}")
    await screenshot("events", height=1200)

    await page.goto("/v2/artifacts/key/sweep-report")
    await expect(link_to(page, reaped).first).to_be_visible()
    await screenshot("reports")
