"""A whole system in its own data folder, and a real browser that may talk to it and to nothing else.

Whatever a page asks for elsewhere, every message of the browser's console and every violation of the content policy
fails the test in which it happened.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from axe_playwright_python.base import AXE_FILE_PATH
from playwright.async_api import Browser, BrowserContext, Page, Request, async_playwright

import stafette
from stafette.client.sync import Client
from tests.whole_system import System, whole_system

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser")
"""The first has no windows to care for: tests of the console's pages take a fifth less of the processors' time."""
CHROMIUM = os.environ.get("STAFETTE_CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
ONLY_HERE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
AXE = {"runOnly": RULES, "resultTypes": ["violations"], "selectors": False}
"""Where each rule holds need not be told."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All browser tests share one event loop, because they share one browser; and need one."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
            item.add_marker(pytest.mark.slow)
            if CHROMIUM is None:
                item.add_marker(
                    pytest.mark.skip(
                        reason="no browser: install Debian's chromium-headless-shell, or name one in STAFETTE_CHROMIUM"
                    )
                )


@pytest.fixture(scope="package")  # so that it ends with them, and not with all tests
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """What all browser tests look at."""
    with whole_system(tmp_path_factory.mktemp("browser") / "data") as found:
        yield found


@pytest.fixture
def messenger(system: System, request: pytest.FixtureRequest) -> Iterator[Client]:
    """A client of the broker, named after the test."""
    name = re.sub(r"\W+", "-", request.node.name)[:60]
    with stafette.connect(system.broker, name=name) as client:
        yield client


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """One Chromium for all tests."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=[ONLY_HERE, "--process-per-site", *(["--no-sandbox"] if os.geteuid() == 0 else [])],
        )
        yield browser
        await browser.close()


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

    page.on("request", note)
    page.on("console", lambda message: complaints.messages.append(f"{message.type}: {message.text}"))
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


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def visitors(browser: Browser) -> Visitors:
    """All who have come so far."""
    return Visitors(browser)


@pytest_asyncio.fixture(loop_scope="session")
async def enter(visitors: Visitors, system: System) -> AsyncIterator[Entrance]:
    """Opens a page for somebody, an administrator unless told otherwise; complaints fail the test.

    `await enter("/queues", secret=None, allowed="pattern of expected complaints", **options of the context)`.
    """
    opened: list[tuple[Page, Complaints, str]] = []

    async def start(path: str = "/", *, secret: str | None = system.secret, allowed: str = "", **options: Any) -> Page:
        page = await (await visitors.context(system.web, secret, options)).new_page()
        opened.append((page, watched(page, system.web), allowed))
        await page.goto(path)
        return page

    yield start
    for page, complaints, allowed in opened:
        await page.close()
        assert complaints.elsewhere == []
        assert [said for said in complaints.messages if not (allowed and re.search(allowed, said))] == []


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
