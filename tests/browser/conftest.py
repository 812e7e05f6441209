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
from playwright.async_api import Browser, BrowserContext, Page, Request, StorageState, async_playwright

import stafette
from stafette.client.sync import Client
from tests.whole_system import System, whole_system

CHROMIUM = os.environ.get("STAFETTE_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
ONLY_HERE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All browser tests share one event loop, because they share one browser; and need one."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
            item.add_marker(pytest.mark.slow)
            if CHROMIUM is None:
                item.add_marker(
                    pytest.mark.skip(reason="no browser: install Debian's chromium, or name one in STAFETTE_CHROMIUM")
                )


@pytest.fixture(scope="session")
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


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """One Chromium for all tests."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=CHROMIUM, args=[ONLY_HERE, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
        )
        yield browser
        await browser.close()


@dataclass
class Complaints:
    """What a browser has to say about our pages."""

    elsewhere: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)


def watched(context: BrowserContext, web: str) -> Complaints:
    """Note every request that goes elsewhere, where nobody answers, and what the browser complains about.

    They are watched, not routed: a browser that asks us about each request does without its cache.
    """
    complaints = Complaints()

    def note(request: Request) -> None:
        if not request.url.startswith((web, "data:", "blob:")):
            complaints.elsewhere.append(request.url)

    context.on("request", note)
    context.on("console", lambda message: complaints.messages.append(f"{message.type}: {message.text}"))
    context.on("weberror", lambda error: complaints.messages.append(f"error: {error.error}"))
    return complaints


Entrance = Callable[..., Awaitable[Page]]


@pytest.fixture(scope="session")
def sessions() -> dict[str, StorageState]:
    """What browsers remember of those who have logged in, by secret: coming in through the door takes a second."""
    return {}


@pytest_asyncio.fixture(loop_scope="session")
async def enter(browser: Browser, system: System, sessions: dict[str, StorageState]) -> AsyncIterator[Entrance]:
    """Opens a page in a browser context of its own, logged in unless told otherwise; complaints fail the test.

    `await enter("/queues", secret=None, allowed="pattern of expected complaints", **options of the context)`.
    """
    contexts: list[tuple[BrowserContext, Complaints, str]] = []

    async def start(path: str = "/", *, secret: str | None = system.secret, allowed: str = "", **options: Any) -> Page:
        known = sessions.get(secret) if secret is not None else None
        context = await browser.new_context(base_url=system.web, storage_state=known, **options)
        context.set_default_timeout(20_000)
        contexts.append((context, watched(context, system.web), allowed))
        page = await context.new_page()
        if secret is not None and known is None:
            await log_in(page, secret)
            sessions[secret] = await context.storage_state()
        await page.goto(path)
        return page

    yield start
    for context, complaints, allowed in contexts:
        await context.close()
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
    session = await page.context.new_cdp_session(page)
    await session.send("Page.setBypassCSP", {"enabled": True})
    script = f"{Path(AXE_FILE_PATH).read_text()}; undefined"
    await session.send("Runtime.evaluate", {"expression": script})
    found = await page.evaluate("tags => axe.run(document, {runOnly: tags})", RULES)
    assert [
        f"{rule['id']}: {rule['help']}: {node['html']}" for rule in found["violations"] for node in rule["nodes"]
    ] == []
