"""What tests of the console's pages share: every page in both themes and widths, and the ways past the pages."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator

from playwright.async_api import APIResponse, Locator, Page

from tests.browser.conftest import Entrance, assert_accessible

LOOKS = (("light", 1280), ("dark", 360))


async def looks_well(enter: Entrance, *paths: str) -> None:
    """Pages can be used by everybody, in light on a desk and in the dark on a telephone."""
    for theme, width in LOOKS:
        page = await enter(paths[0], color_scheme=theme, viewport={"width": width, "height": 800})
        for path in paths:
            if path is not paths[0]:
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
