"""Brokers: their load, and draining one; in a system of its own, which does not survive it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.async_api import expect

from stafette.client.sync import Client
from tests.support.browser_pages import Entrance, forced, looks_well, token_of
from tests.support.stafette_up import System, whole_system


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """A system whose broker may end."""
    with whole_system(tmp_path_factory.mktemp("brokers") / "data") as found:
        yield found


async def test_the_load_is_shown(enter: Entrance, messenger: Client) -> None:
    messenger.create_queue("load")
    for n in range(20):
        messenger.send("load", f"{n}")
    page = await enter("/brokers")
    await page.get_by_label("Refresh").select_option("2")
    row = page.locator("#list tbody tr")
    await expect(row).to_have_count(1)
    await expect(row).to_contain_text("alive")
    await expect(row).to_contain_text("MiB", timeout=30_000)
    await expect(row).to_contain_text("stafette://")
    await page.get_by_role("link", name="6h").click()
    await page.wait_for_url("**/brokers?span=6h")
    await looks_well(enter, "/brokers")


async def test_only_administrators_drain(enter: Entrance, system: System) -> None:
    page = await enter("/brokers", secret=system.viewers_secret())
    await expect(page.get_by_role("link", name="Drain")).to_have_count(0)
    assert (await forced(page, "/brokers/1/drain", token=await token_of(page))).status == 403


async def test_drain(enter: Entrance, system: System) -> None:
    page = await enter("/brokers")
    assert (await forced(page, "/brokers/1/drain")).status == 403
    assert (await forced(page, "/brokers/999/drain", token=await token_of(page))).status == 400
    await page.get_by_role("link", name="Drain").click()
    await looks_well(enter, page.url.removeprefix(system.web))
    await page.get_by_role("button", name="Drain the broker").click()
    await expect(page.locator(".notice")).to_contain_text("was told to drain")
    await page.get_by_label("Refresh").select_option("2")
    await expect(page.get_by_role("link", name="Drain")).to_have_count(0, timeout=30_000)
    await page.goto("/audit")
    await expect(page.locator("#lines tbody tr").first).to_contain_text("drain")
