"""A whole system in its own data folder, and a real browser that may talk to it and to nothing else.

Whatever a page asks for elsewhere, every message of the browser's console and every violation of the content policy
fails the test in which it happened.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, async_playwright

import stafette
from stafette.client.sync import Client
from tests.support.browser_pages import CHROMIUM, Complaints, Entrance, Visitors, watched
from tests.support.stafette_up import System, whole_system

ONLY_HERE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"


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
