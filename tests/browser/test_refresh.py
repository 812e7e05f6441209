"""Refreshing: by hand and by itself, without taking the focus or what is being written; not while nobody looks.

The page's clock is in the test's hands, so that time passes when the test says so.
"""

from __future__ import annotations

import pytest_asyncio
from playwright.async_api import Browser, Page, Request, expect

from stafette.client.sync import Client
from tests.support.browser_pages import Entrance, Visitors

HIDE = """hidden => {
    Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
}"""


def of_refreshes(page: Page) -> list[Request]:
    """The requests that the page's refresh makes from now on."""
    made: list[Request] = []
    page.on("request", lambda request: made.append(request) if "x-refresh" in request.headers else None)
    return made


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def visitors(browser: Browser) -> Visitors:
    """Not those of other tests: a clock is that of all pages of a context."""
    return Visitors(browser)


async def pass_time(page: Page, milliseconds: int) -> None:
    """Let the page's time pass; whatever it asked for meanwhile has been noticed when this returns."""
    await page.clock.run_for(milliseconds)
    await page.evaluate("() => fetch('/static/icon.svg').then(() => null)")


async def at_our_pace(enter: Entrance, path: str, choice: str) -> Page:
    """A page whose clock stands still."""
    page = await enter(path)
    await page.clock.install(time="2030-01-01T00:00:00")
    await page.clock.pause_at("2030-01-01T01:00:00")
    await page.evaluate(f"localStorage.setItem('refresh', '{choice}')")
    await page.reload()
    return page


async def test_by_hand(enter: Entrance, messenger: Client) -> None:
    messenger.create_queue("by hand")
    page = await at_our_pace(enter, "/queues/by%20hand", "0")
    made = of_refreshes(page)
    await pass_time(page, 120_000)
    assert made == []
    messenger.send("by hand", "new")
    await page.get_by_role("button", name="Refresh").click()
    await expect(page.locator("#messages tbody tr")).to_have_count(1)
    assert len(made) == 1


async def test_by_itself(enter: Entrance, messenger: Client) -> None:
    messenger.create_queue("by itself")
    page = await at_our_pace(enter, "/queues/by%20itself", "0")
    for choice in ("2", "5", "30"):
        await page.get_by_label("Refresh").select_option(choice)
        messenger.send("by itself", f"after {choice} seconds")
        made = of_refreshes(page)
        await pass_time(page, int(choice) * 1000 - 100)
        assert made == []
        await pass_time(page, 100)
        await expect(page.locator("#messages tbody")).to_contain_text(f"after {choice} seconds")
        assert len(made) == 1
    await page.reload()
    await expect(page.get_by_label("Refresh")).to_have_value("30")


async def test_not_while_hidden(enter: Entrance, messenger: Client) -> None:
    messenger.create_queue("hidden")
    page = await at_our_pace(enter, "/queues/hidden", "2")
    await page.evaluate(HIDE, True)
    made = of_refreshes(page)
    messenger.send("hidden", "news")
    await pass_time(page, 60_000)
    assert made == []
    await page.evaluate(HIDE, False)
    await expect(page.locator("#messages tbody tr")).to_have_count(1)
    assert len(made) == 1
    async with page.expect_request(lambda request: "x-refresh" in request.headers):
        await page.clock.run_for(2000)


async def refreshed(page: Page) -> None:
    """Refresh and wait until it is done."""
    await page.evaluate(
        """() => new Promise(done => {
            document.addEventListener("refreshed", done, { once: true });
            document.getElementById("refresh-now").dispatchEvent(new Event("click"));
        })"""
    )


async def test_the_focus_and_what_is_written_stay(enter: Entrance, messenger: Client) -> None:
    messenger.create_queue("focused")
    ids = [messenger.send("focused", f"{n}")[0] for n in range(3)]
    page = await at_our_pace(enter, "/queues/focused", "0")
    await page.locator("#filter summary").click()
    await page.get_by_label("Sender", exact=True).fill("half a na")
    messenger.send("focused", "another")
    await refreshed(page)
    await expect(page.locator("#messages tbody tr")).to_have_count(4)
    await expect(page.get_by_label("Sender", exact=True)).to_be_focused()
    await expect(page.get_by_label("Sender", exact=True)).to_have_value("half a na")
    await expect(page.get_by_label("Receiver", exact=True)).to_be_visible()

    # The third of several links that all lead to the same client
    third = page.locator("#messages tbody tr").nth(2).get_by_role("link", name=messenger.name)
    await third.focus()
    messenger.send("focused", "yet another")
    await refreshed(page)
    await expect(page.locator("#messages tbody tr")).to_have_count(5)
    await expect(third).to_be_focused()

    # A link that is somewhere else now
    await page.get_by_role("link", name=f"Message {ids[1]}", exact=True).focus()
    messenger.receive("focused")
    await refreshed(page)
    await expect(page.locator("#messages tbody tr")).to_have_count(4)
    await expect(page.get_by_role("link", name=f"Message {ids[1]}", exact=True)).to_be_focused()


async def test_marked_text_stays_marked(enter: Entrance, messenger: Client) -> None:
    messenger.create_queue("marked")
    messenger.send("marked", "mark me")
    page = await at_our_pace(enter, "/queues/marked", "0")
    await page.locator("#messages .preview code").dblclick(position={"x": 8, "y": 8})
    messenger.send("marked", "another")
    await refreshed(page)
    assert await page.evaluate("getSelection().toString().trim()") == "mark"
    await page.evaluate("getSelection().removeAllRanges()")
    await refreshed(page)
    await expect(page.locator("#messages tbody tr")).to_have_count(2)


async def test_what_goes_wrong_is_said(enter: Entrance, messenger: Client) -> None:
    messenger.create_queue("short-lived")
    page = await enter("/queues/short-lived", allowed="404")
    messenger.delete_queue("short-lived")
    await page.get_by_role("button", name="Refresh").click()
    await expect(page.locator("#refreshed")).to_contain_text("not refreshed: there is no queue short-lived")
    await expect(page.get_by_role("heading", level=1)).to_have_text("short-lived")
