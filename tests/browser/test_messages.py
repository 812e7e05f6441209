"""One message: its body in each view, its headers, its life."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from stafette.client.sync import Client
from stafette.web.body_views import HEX_BYTES, detect_format, render_body
from tests.support.browser_pages import Entrance, follow, looks_well
from tests.support.stafette_up import System


async def test_json_text_and_hex(enter: Entrance, messenger: Client) -> None:
    messenger.create_queue("shown")
    (sent,) = messenger.send(
        "shown", '{"n":1.0,"list":[],"big":12345678901234567890}', headers={"kind": "test"}, context=5
    )
    page = await enter(f"/queues/shown/messages/{sent}")
    await expect(page.locator("#body")).to_have_text(
        '{\n  "n": 1.0,\n  "list": [],\n  "big": 12345678901234567890\n}', use_inner_text=True
    )
    await expect(page.get_by_role("row", name="kind test")).to_be_visible()
    await page.get_by_role("link", name="Text", exact=True).click()
    await expect(page.locator("#body")).to_have_text('{"n":1.0,"list":[],"big":12345678901234567890}')
    assert page.url.endswith("?view=text")
    await page.get_by_role("link", name="Hex", exact=True).click()
    await expect(page.locator("#body")).to_contain_text("00000000  7b 22 6e 22 3a 31 2e 30")
    await expect(page.locator("#body")).to_contain_text('{"n":1.0')
    await looks_well(enter, f"/queues/shown/messages/{sent}", f"/queues/shown/messages/{sent}?view=hex")

    await page.get_by_role("link", name="5", exact=True).click()
    await page.wait_for_url("**/search?text=5")


async def test_bytes_are_shown_page_by_page_and_downloaded(enter: Entrance, messenger: Client) -> None:
    messenger.create_queue("bytes")
    body = bytes(range(256)) * 20
    (sent,) = messenger.send("bytes", body)
    page = await enter(f"/queues/bytes/messages/{sent}")
    await expect(page.locator("#body")).to_contain_text("000000f0")
    await follow(page.get_by_role("link", name="Next page"))
    await expect(page.locator("#body")).to_contain_text(f"{HEX_BYTES:08x}")
    await page.get_by_role("link", name="JSON").click()
    await expect(page.get_by_text("the body is not JSON")).to_be_visible()

    async with page.expect_download() as started:
        await page.get_by_role("link", name="Download body").click()
    download = await started.value
    assert download.suggested_filename == f"message-{sent}.bin"
    assert (await download.path()).read_bytes() == body
    answer = await page.request.get(f"/queues/bytes/messages/{sent}/body")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_its_life(enter: Entrance, messenger: Client, system: System) -> None:
    messenger.create_queue("lived", max_deliveries=2)
    (delayed,) = messenger.send("lived", "later", delay=3600, ttl=7200)
    page = await enter(f"/queues/lived/messages/{delayed}", allowed="404")
    life = page.get_by_role("list").filter(has_text="arrived")
    await expect(life.get_by_role("listitem")).to_contain_text(
        ["arrived; sent by", "delayed; becomes ready", "expires"]
    )

    (sent,) = messenger.send("lived", "now")
    await page.goto(f"/queues/lived/messages/{sent}")
    await expect(life.get_by_role("listitem")).to_contain_text(["arrived", "ready now; waiting for anyone"])
    with messenger.lease("lived") as lease:
        assert lease is not None
        await page.reload()
        await expect(life.get_by_role("listitem")).to_contain_text(
            ["arrived", f"leased, delivery 1 of 2; held by {messenger.name}", "lease ends"]
        )
        lease.nack()
    await page.reload()
    await expect(life.get_by_role("listitem")).to_contain_text(["arrived", "delivered 1 of 2 times", "ready now"])
    with messenger.lease("lived") as lease:
        assert lease is not None
        lease.nack()
    await page.reload()
    await expect(life.get_by_role("listitem")).to_contain_text(["arrived", "delivered 2 of 2", "dead"])
    await looks_well(enter, f"/queues/lived/messages/{sent}")
    await expect(page.get_by_role("link", name="Redrive dead messages of this queue")).to_be_visible()

    system.command("queue", "purge", "lived", "--yes")
    for gone in (delayed, 10**30):
        answer = await page.goto(f"/queues/lived/messages/{gone}")
        assert answer is not None
        assert answer.status == 404
        await expect(page.get_by_role("alert")).to_contain_text(f"queue lived has no message {gone}")


@pytest.mark.parametrize(
    ("body", "natural"),
    [
        (b"", "text"),
        (b"plain", "text"),
        (b'{"a": 1}', "json"),
        (b"[" * 100_000, "text"),
        (b'{"a": "\xff"}', "hex"),
        (b"\x00\x01", "hex"),
        ("ä".encode() * 200_000, "text"),
        (b"x" + "ä".encode() * 200_000, "text"),
    ],
    ids=["empty", "plain", "json", "deep", "broken", "bytes", "long", "cut"],
)
async def test_each_body_can_be_seen_in_each_view(body: bytes, natural: str) -> None:
    assert detect_format(body) == natural
    for kind in ("text", "json", "hex"):
        shown = render_body(body, kind)
        assert shown.end <= len(body)
        assert "\0" not in shown.text
    seen = b""
    while len(seen) < min(len(body), 3 * HEX_BYTES):
        shown = render_body(body, "hex", len(seen))
        seen += b"".join(bytes.fromhex(line[10:58].replace("  ", " ")) for line in shown.text.splitlines())
    assert body.startswith(seen)
