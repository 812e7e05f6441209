"""The door and the first page."""

from __future__ import annotations

from playwright.async_api import expect

from stafette.client.sync import Client
from tests.support.browser_pages import Entrance, assert_accessible, looks_well
from tests.support.stafette_up import System


async def test_nobody_sees_anything_without_a_secret(enter: Entrance, system: System) -> None:
    page = await enter("/queues?text=a", secret=None, allowed="401")
    assert page.url == f"{system.web}/login?next=%2Fqueues%3Ftext%3Da"
    await assert_accessible(page)
    await page.get_by_label("Operator's secret").fill("guess")
    await page.get_by_role("button", name="Log in").click()
    await expect(page.get_by_role("alert")).to_contain_text("not an operator's secret")

    await page.get_by_label("Operator's secret").fill(system.secret)
    await page.get_by_role("button", name="Log in").click()
    await page.wait_for_url("**/queues?text=a")

    await page.get_by_role("button", name="Log out").click()
    await page.wait_for_url("**/login")
    await page.goto("/")
    assert "/login" in page.url


async def test_the_overview_shows_what_is_there(enter: Entrance, messenger: Client) -> None:
    messenger.create_queue("overview")
    messenger.send("overview", "hello")
    page = await enter("/")
    await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    await expect(page.locator("#health")).to_contain_text("brokers")
    await looks_well(enter, "/")
