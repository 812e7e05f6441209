"""Search by name and by number."""

from __future__ import annotations

from playwright.async_api import expect

from stafette.client.sync import Client
from tests.support.browser_pages import Entrance, looks_well


async def test_names_and_numbers(enter: Entrance, messenger: Client) -> None:
    messenger.create_queue("haystack one")
    messenger.create_queue("Haystack Two")
    (sent,) = messenger.send("haystack one", "needle", context=4711)
    page = await enter("/")
    search = page.get_by_role("searchbox", name="Search queues, clients, message IDs")
    await search.fill("haystack")
    await search.press("Enter")
    await page.wait_for_url("**/search?text=haystack")
    await expect(page.get_by_role("status")).to_contain_text("2 found")
    await expect(search).to_have_value("haystack")
    await looks_well(enter, "/search?text=haystack")

    await search.fill("haystack one")
    await search.press("Enter")
    await page.get_by_role("region", name="Exact match").get_by_role("link", name="haystack one").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("haystack one")

    for number in (4711, sent):
        await page.goto(f"/search?text={number}")
        await page.get_by_role("link", name=f"Message {sent}", exact=True).click()
        await expect(page.locator("#body")).to_have_text("needle")
    await looks_well(enter, "/search?text=4711")

    await page.goto(f"/search?text={messenger.name}")
    await page.get_by_role("link", name=messenger.name, exact=True).first.click()
    await page.wait_for_url(f"**/clients/{messenger.name}")


async def test_nothing_is_no_mistake(enter: Entrance) -> None:
    page = await enter("/search")
    await expect(page.get_by_role("heading", level=1)).to_have_text("Search")
    await looks_well(enter, "/search?text=")
    for text in ("no such thing", "9" * 40, "-1", "%25", "_", "\\", "   "):
        answer = await page.goto(f"/search?text={text}")
        assert answer is not None
        assert answer.status == 200, text
    await page.goto("/search?text=no+such+thing")
    await expect(page.get_by_role("status")).to_contain_text("0 found")
