"""What operators did, line by line."""

from __future__ import annotations

from playwright.async_api import expect

from stafette.client.sync import Client
from tests.support.browser_pages import Entrance, follow, forced, looks_well, token_of


async def test_every_change_is_written_down(enter: Entrance, messenger: Client) -> None:
    messenger.create_queue("audited/queue")
    messenger.send("audited/queue", "one")
    page = await enter("/queues/audited%2Fqueue/purge")
    await page.get_by_role("button", name="Purge the queue").click()
    await expect(page.locator(".notice")).to_be_visible()
    await page.goto("/audit")
    line = page.locator("#lines tbody tr").first
    await expect(line).to_contain_text("1 message was deleted from audited/queue")
    await expect(line).to_contain_text("admin")
    await expect(line).to_contain_text("purge")
    await line.get_by_role("link", name="audited/queue").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("audited/queue")
    await looks_well(enter, "/audit")


async def test_older_lines_are_on_the_next_page(enter: Entrance, messenger: Client) -> None:
    messenger.create_queue("often emptied")
    page = await enter("/queues")
    token = await token_of(page)
    for _ in range(101):
        assert (await forced(page, "/queues/often%20emptied/purge", token=token)).status == 303
    await page.goto("/audit")
    await expect(page.locator("#lines tbody tr")).to_have_count(100)
    await follow(page.get_by_role("link", name="Next page"))
    await expect(page.locator("#lines tbody tr").first).to_contain_text("often emptied")
    await page.get_by_role("link", name="First page").click()
    await page.wait_for_url("**/audit")
