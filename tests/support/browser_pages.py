"""What tests of the console's pages share: who looks at them, every page in both themes and widths, and the ways past
the pages."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from axe_playwright_python.base import AXE_FILE_PATH
from playwright.async_api import APIResponse, Browser, BrowserContext, ConsoleMessage, Locator, Page, Request

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser")
"""The first has no windows to care for: tests of the console's pages take a fifth less of the processors' time."""
CHROMIUM = os.environ.get("STAFETTE_CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
AXE = {"runOnly": RULES, "resultTypes": ["violations"], "selectors": False}
"""Where each rule holds need not be told."""
UNDRAWN = "document.querySelectorAll('[data-chart]').forEach((chart) => delete chart.dataset.drawn)"
"""Lets one wait until each is drawn again."""
LOOKS: tuple[tuple[Literal["dark", "light"], int], ...] = (("dark", 360), ("light", 1280))

FASTER_THAN_AUTOFOCUS = "Autofocus processing was blocked because a document already has a focused element."
"""Chromium says so when a test types into the field before the browser has put the cursor there."""


@dataclass
class Complaints:
    """What a browser has to say about our pages."""

    elsewhere: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)


def watched(page: Page, web: str) -> Complaints:
    """Note every request that goes elsewhere, where nobody answers, and what the browser complains about.

    They are watched, not routed: a browser that asks us about each request does without its cache.
    """
    complaints = Complaints()

    def note(request: Request) -> None:
        if not request.url.startswith((web, "data:", "blob:")):
            complaints.elsewhere.append(request.url)

    def hear(message: ConsoleMessage) -> None:
        if message.text != FASTER_THAN_AUTOFOCUS:
            complaints.messages.append(f"{message.type}: {message.text}")

    page.on("request", note)
    page.on("console", hear)
    page.on("pageerror", lambda error: complaints.messages.append(f"error: {error}"))
    return complaints


Entrance = Callable[..., Awaitable[Page]]


class Visitors:
    """Browser contexts in which somebody has logged in, one for each who is somehow different.

    Coming in through the door takes a second, and Plotly another in every new process. So each keeps a page open, whose
    process the others of the same site go on with.
    """

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._known: dict[str, Page] = {}

    async def context(self, web: str, secret: str | None, options: dict[str, Any]) -> BrowserContext:
        """The context of somebody; who has no secret is new each time."""
        who = repr((web, secret, sorted(options.items())))
        if secret is not None and (page := self._known.get(who)):
            await page.evaluate("localStorage.clear()")  # what one chose is not for the next
            return page.context
        context = await self._browser.new_context(base_url=web, **options)
        context.set_default_timeout(20_000)
        if secret is not None:
            page = await context.new_page()
            await log_in(page, secret)
            await page.goto("/static/icon.svg")
            self._known[who] = page
        return context


async def log_in(page: Page, secret: str) -> None:
    """Come in through the door."""
    await page.goto("/login")
    await page.get_by_label("Operator's secret").fill(secret)
    await page.get_by_role("button", name="Log in").click()
    await page.wait_for_url(lambda url: "/login" not in url)


async def assert_accessible(page: Page) -> None:
    """No rule of axe is broken. The script runs outside of the page's own policy, as a browser's extension does."""
    if not await page.evaluate("'axe' in window"):
        session = await page.context.new_cdp_session(page)
        await session.send("Page.setBypassCSP", {"enabled": True})
        script = f"{Path(AXE_FILE_PATH).read_text()}; undefined"
        await session.send("Runtime.evaluate", {"expression": script})
    found = await page.evaluate("options => axe.run(document, options)", AXE)
    assert [
        f"{rule['id']}: {rule['help']}: {node['html']}" for rule in found["violations"] for node in rule["nodes"]
    ] == []


async def looks_well(enter: Entrance, *paths: str) -> None:
    """Pages can be used by everybody, in the dark on a telephone and then in light on a desk."""
    page = await enter("about:blank")
    for path in paths:
        for theme, width in LOOKS:
            await page.evaluate(UNDRAWN)
            await page.emulate_media(color_scheme=theme)  # which draws charts anew
            await page.set_viewport_size({"width": width, "height": 800})
            if (theme, width) == LOOKS[0]:
                await page.goto(path)
            for chart in await page.locator("[data-chart]").all():
                await chart.scroll_into_view_if_needed()
                await page.wait_for_selector(f"#{await chart.get_attribute('id')}[data-drawn]")
            await assert_accessible(page)
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (
                f"{path} is wider than {width}"
            )
    await page.close()


async def token_of(page: Page) -> str:
    """What the forms of this session bear."""
    (session,) = [cookie["value"] for cookie in await page.context.cookies() if cookie["name"] == "stafette_session"]
    return hashlib.sha256(f"csrf:{session}".encode()).hexdigest()


async def forced(page: Page, path: str, *, token: str | None = None, origin: str | None = None) -> APIResponse:
    """Send a form that no page of this session has shown."""
    form: dict[str, str | float | bool] = {} if token is None else {"csrf": token}
    headers = {"Accept": "application/json"} | ({} if origin is None else {"Origin": origin})
    return await page.request.post(path, form=form, headers=headers, max_redirects=0)


async def follow(link: Locator) -> None:
    """Click, and wait for the whole page behind it."""
    async with link.page.expect_navigation():
        await link.click()


async def following_pages(page: Page) -> AsyncIterator[Page]:
    """This page and all that follow."""
    yield page
    while await page.get_by_role("link", name="Next page").count():
        await follow(page.get_by_role("link", name="Next page"))
        yield page
