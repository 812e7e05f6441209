"""What tests of the console's pages share: every page in both themes and widths, and the ways past the pages."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from typing import Literal

from playwright.async_api import APIResponse, Locator, Page

from tests.browser.conftest import Entrance, assert_accessible

UNDRAWN = "document.querySelectorAll('[data-chart]').forEach((chart) => delete chart.dataset.drawn)"
"""Lets one wait until each is drawn again."""
LOOKS: tuple[tuple[Literal["dark", "light"], int], ...] = (("dark", 360), ("light", 1280))


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
