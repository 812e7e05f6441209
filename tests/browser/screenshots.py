"""Looks at the main pages of a system with some life in it, light and dark, and keeps what it saw in docs/images.

python -m tests.browser.screenshots [FOLDER]
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

from playwright.async_api import Browser, Page, ViewportSize, async_playwright

import stafette.aio
from tests.support.browser_pages import CHROMIUM, log_in
from tests.support.stafette_up import System, whole_system

IMAGES = Path(__file__).parents[2] / "docs" / "images"
SMOKE = Path(__file__).parents[2] / "experiments" / "smoke"
SIZE = ViewportSize(width=1280, height=860)
QUEUES = ("orders", "invoices", "thumbnails", "mail-out")
LIFE_SECONDS = 75
"""Long enough for charts to have something to show."""


async def fill(system: System) -> None:
    """Queues with messages of all kinds, by clients with names."""
    async with await stafette.aio.connect(system.broker, name="shop") as shop:
        for queue in QUEUES:
            await shop.create_queue(queue, max_deliveries=2 if queue == "invoices" else None)
        async with await stafette.aio.connect(system.broker, name="billing") as billing:
            for number in range(40):
                body = f'{{"order": {1000 + number}, "customer": "Müller & Co.", "total": "{19.9 + number:.2f} CHF"}}'
                headers = {"content-type": "application/json", "trace": f"{number:08x}"}
                await shop.send("orders", body, priority=1 + number % 10, headers=headers, context=1000 + number)
            await shop.send("orders", "for billing alone", receiver="billing", priority=9)
            await shop.send("mail-out", "in an hour", delay=3600)
            await shop.send("invoices", "nobody can print this one")
            for _ in range(2):
                lease = await billing.lease("invoices")
                assert lease is not None
                await lease.nack()


async def live(system: System, name: str) -> None:
    """Send and receive at an uneven pace until cancelled."""
    async with await stafette.aio.connect(system.broker, name=name) as client:
        for turn in range(1_000_000):
            queue = QUEUES[turn % len(QUEUES)]
            await client.send(queue, f"picture {turn} of {name}")
            if turn % 20:
                await client.receive(queue)
            await asyncio.sleep(0.02 if turn // 400 % 2 else 0.005)


async def keep(page: Page, folder: Path, name: str, path: str, ready: str) -> None:
    """Open a page, wait until it is drawn, and keep it."""
    await page.goto(path)
    await page.wait_for_selector(ready)
    await page.wait_for_load_state("networkidle")
    await page.screenshot(path=folder / f"{name}.png")
    print(folder / f"{name}.png", file=sys.stderr)


async def run_experiment(page: Page, system: System) -> str:
    """Run the smoke test's sweep from the pages and wait for its analysis; returns where the result is."""
    folder = system.data / "experiments"
    folder.mkdir(exist_ok=True)
    shutil.copy(SMOKE / "sweep.toml", folder / "sweep.toml")
    await page.goto("/lab/experiments/sweep")
    await page.get_by_label("Profile").select_option("quick")
    await page.get_by_role("button", name="Run").click()
    await page.locator("#outcome .state").filter(has_text="done").wait_for(timeout=300_000)
    return "/lab/series/sweep-0001"


async def pages(browser: Browser, system: System, folder: Path) -> None:
    """All main pages, in both themes."""
    context = await browser.new_context(base_url=system.web, viewport=SIZE)
    page = await context.new_page()
    await log_in(page, system.secret)
    result = await run_experiment(page, system)
    await page.goto("/queues/orders")
    message = await page.locator("a[href*='/messages/']").first.get_attribute("href") or ""
    for theme in ("light", "dark"):
        await page.emulate_media(color_scheme=theme)
        await keep(page, folder, f"overview-{theme}", "/?span=15m", "#rates .main-svg")
        await keep(page, folder, f"queue-{theme}", "/queues/orders", "h1")
        await keep(page, folder, f"message-{theme}", message, "h1")
        await keep(page, folder, f"brokers-{theme}", "/brokers", "h1")
        await keep(page, folder, f"lab-{theme}", "/lab", "h1")
        await keep(page, folder, f"editor-{theme}", "/lab/experiments/sweep", "h1")
        await keep(page, folder, f"result-{theme}", result, "h1")
    await context.close()


async def main(folder: Path) -> None:
    """Start everything, live for a while, look."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name, whole_system(Path(name) / "data") as system:
        await fill(system)
        async with contextlib.AsyncExitStack() as stack:
            playwright = await stack.enter_async_context(async_playwright())
            options = ["--no-sandbox"] if os.geteuid() == 0 else []
            browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=options)
            async with asyncio.TaskGroup() as tasks:
                living = [tasks.create_task(live(system, name)) for name in ("camera-1", "camera-2", "camera-3")]
                await asyncio.sleep(LIFE_SECONDS)
                await pages(browser, system, folder)
                for task in living:
                    task.cancel()
            await browser.close()


if __name__ == "__main__":
    if CHROMIUM is None:
        raise SystemExit("there is no browser to look with; install chromium, or name one in STAFETTE_CHROMIUM")
    asyncio.run(main(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES))
