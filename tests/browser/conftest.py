"""A headless Chromium on the UI of the real server."""

import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from playwright.async_api import FloatRect, Page, async_playwright

from tests.production import ROOT, Production

SCREENSHOTS = ROOT / "build" / "screenshots"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WIDTH, HEIGHT, MENU = 1180, 1200, 256

Screenshot = Callable[..., Awaitable[None]]


@pytest.fixture(scope="session")
def browser_path() -> str:
    """The system's browser. CI never skips for want of one."""
    for name in BROWSERS:
        if found := shutil.which(name):
            return found
    missing = "no browser is installed: apt install chromium"
    if os.environ.get("CI") == "true":
        pytest.fail(missing)
    pytest.skip(missing)


@pytest.fixture
async def page(browser_path: str, production: Production) -> AsyncIterator[Page]:
    """An empty page of a fresh browser, whose paths are those of the UI."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=browser_path,
            args=["--no-sandbox"] if os.geteuid() == 0 else [],
        )
        try:
            page = await browser.new_page(
                base_url=production.ui,
                viewport={"width": WIDTH, "height": HEIGHT},
                locale="en-GB",
                timezone_id="UTC",
            )
            page.set_default_timeout(20_000)
            yield page
        finally:
            await browser.close()


@pytest.fixture
def screenshot(page: Page) -> Screenshot:
    """Keep what the page shows, without its menu, as build output for people to look at."""

    async def take(name: str, *, top: int = 0, height: int = 900) -> None:
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        await page.wait_for_timeout(700)  # the UI fades in
        clip = FloatRect(x=MENU, y=top, width=WIDTH - MENU, height=height)
        await page.screenshot(path=SCREENSHOTS / f"{name}.png", clip=clip)

    return take
