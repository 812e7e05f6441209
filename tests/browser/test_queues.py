"""Queues: the list, one queue and its messages, and what an administrator does with them."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Page, expect

from stafette.client.sync import Client
from stafette.errors import QueueNotFound
from tests.support.browser_pages import Entrance, follow, following_pages, forced, looks_well, token_of
from tests.support.stafette_up import System


async def rows(page: Page) -> list[str]:
    """What stands in front of each line."""
    return [text.strip() for text in await page.locator("#list tbody th, #messages tbody th").all_text_contents()]


def numbers(found: list[str]) -> list[int]:
    """Ids of messages."""
    return [int(text.removeprefix("Message").strip()) for text in found]


async def test_the_list_pages_filters_and_orders(enter: Entrance, messenger: Client) -> None:
    names = [f"listed-{n:03}" for n in range(120)]
    for name in names:
        messenger.create_queue(name)
    page = await enter("/queues")
    await page.get_by_label("Name contains").fill("LISTED-")
    await page.get_by_role("button", name="Filter").click()
    await expect(page.get_by_role("link", name="listed-000", exact=True)).to_be_visible()
    seen = [await rows(each) async for each in following_pages(page)]
    assert [len(found) for found in seen] == [50, 50, 20]
    assert [name for found in seen for name in found] == names
    assert "text=LISTED-" in page.url
    await follow(page.get_by_role("link", name="First page"))
    assert await rows(page) == names[:50]

    await page.goto(f"/queues?text={messenger.name}&personal=no")
    await expect(page.locator("#list")).to_contain_text("No matching queues")
    await page.get_by_label("Show").select_option("personal queues only")
    await page.get_by_role("button", name="Filter").click()
    await expect(page.get_by_role("link", name=f"@{messenger.name}")).to_be_visible()
    await page.get_by_label("Order").select_option("most ready")
    await page.get_by_role("button", name="Filter").click()
    await expect(page.get_by_role("link", name=f"@{messenger.name}")).to_be_visible()
    assert "order=ready" in page.url


async def test_the_list_looks_well(enter: Entrance, messenger: Client) -> None:
    messenger.create_queue("a-queue-to-look-at")
    await looks_well(enter, "/queues?text=to-look-at", "/queues/-/new")


async def test_a_queue_is_made(enter: Entrance, messenger: Client) -> None:
    messenger.create_queue("made-dead")
    page = await enter("/queues", allowed="40[09]")
    await page.get_by_role("link", name="New queue").click()
    await page.get_by_label("Name").fill("made/by hand")
    await page.get_by_label("Maximum body size").fill("a lot")
    await page.get_by_role("button", name="Create").click()
    await expect(page.get_by_role("alert")).to_contain_text("max_body: 'a lot' is not a whole number")
    await expect(page.get_by_label("Name")).to_have_value("made/by hand")
    await page.get_by_label("Maximum body size").fill("2048")
    await page.get_by_label("Maximum deliveries").fill("2")
    await page.get_by_label("Dead-letter queue").fill("made-dead")
    await page.get_by_label("Exclude own messages").check()
    await page.get_by_role("button", name="Create").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("made/by hand")
    await expect(page.get_by_text("queue made/by hand was created")).to_be_visible()
    made = messenger.queue("made/by hand")
    assert (made.creator, made.max_body, made.max_deliveries, made.dead_letter, made.exclude_own) == (
        "operator", 2048, 2, "made-dead", True,
    )  # fmt: skip

    await page.goto("/queues/-/new")
    await page.get_by_label("Name").fill("made/by hand")
    await page.get_by_role("button", name="Create").click()
    await expect(page.get_by_role("alert")).to_contain_text("queue made/by hand already exists")


async def test_filters_apply_before_paging(enter: Entrance, messenger: Client) -> None:
    messenger.create_queue("filtered")
    ids = [messenger.send("filtered", f"body {n}", context=n, priority=n % 10 + 1)[0] for n in range(120)]
    odd = messenger.send("filtered", "the needle äöü", priority=1, receiver=messenger.name)[0]
    page = await enter("/queues/filtered")
    seen = [numbers(await rows(each)) async for each in following_pages(page)]
    assert [len(found) for found in seen] == [50, 50, 21]
    assert sorted(each for found in seen for each in found) == [*ids, odd]

    for query, expected in (
        ("text=needle+%C3%A4%C3%B6%C3%BC", [odd]),
        ("text=nothing+like+it", []),
        ("context=119", [ids[119]]),
        (f"receiver={messenger.name}", [odd]),
        ("nobody=1&context=7", [ids[7]]),
        (f"sender={messenger.name}&priority=3", [each for n, each in enumerate(ids) if n % 10 + 1 == 3]),
        ("sender=nobody-at-all", []),
        ("older=1h", []),
        ("newer=1h&context=3", [ids[3]]),
        ("state=dead", []),
    ):
        await page.goto(f"/queues/filtered?{query}")
        assert numbers(await rows(page)) == expected, query


async def test_the_filter_form_makes_an_address(enter: Entrance, messenger: Client) -> None:
    messenger.create_queue("formed")
    for n in range(60):
        messenger.send("formed", f"body {n}", priority=n % 2 + 1)
    page = await enter("/queues/formed", allowed="400")
    await page.get_by_text("Filter", exact=True).first.click()
    await page.get_by_label("Sender", exact=True).fill(messenger.name)
    await page.get_by_label("Priority").fill("1")
    await page.get_by_role("button", name="Filter").click()
    await page.wait_for_url(re.compile(rf"sender={messenger.name}.*priority=1"))
    await expect(page.locator("#messages")).to_contain_text("30 shown")
    assert len(await rows(page)) == 30
    await page.get_by_label("Priority").fill("eleven")
    await page.get_by_role("button", name="Filter").click()
    await expect(page.get_by_role("alert")).to_contain_text("'eleven' is not a whole number between 1 and 10")
    await expect(page.get_by_label("Sender", exact=True)).to_have_value(messenger.name)
    await follow(page.get_by_role("link", name="Clear filter"))
    assert len(await rows(page)) == 50
    await page.get_by_role("region", name="Senders", exact=True).get_by_role("link", name=messenger.name).click()
    await page.wait_for_url(f"**/queues/formed?sender={messenger.name}")
    await page.get_by_role("region", name="Receivers", exact=True).get_by_role("link", name="anyone").click()
    await page.wait_for_url("**/queues/formed?nobody=1")


async def test_browsing_neither_locks_nor_removes(enter: Entrance, messenger: Client) -> None:
    messenger.create_queue("browsed")
    first = messenger.send("browsed", "first", priority=9)[0]
    messenger.send("browsed", "second")
    page = await enter("/queues/browsed")
    assert numbers(await rows(page))[0] == first
    await page.get_by_role("link", name=f"Message {first}").click()
    await expect(page.locator("#body")).to_have_text("first")
    message = messenger.receive("browsed")
    assert message is not None
    assert (message.id, message.deliveries) == (first, 0)


async def test_a_queue_looks_well(enter: Entrance, messenger: Client) -> None:
    messenger.create_queue("looked at", max_deliveries=1)
    for n in range(3):
        messenger.send("looked at", f"body {n}", receiver=messenger.name if n else None, context=n)
    with messenger.lease("looked at") as lease:
        assert lease is not None
        lease.nack()
    messenger.send("looked at", "later", delay=3600)
    with messenger.lease("looked at", seconds=600):
        views = ("?sender=x", "?state=dead", "?state=leased", "?state=delayed", "/send", "/purge", "/delete")
        await looks_well(enter, *(f"/queues/looked%20at{view}" for view in views))


async def test_a_chart_is_drawn_when_it_comes_into_view(enter: Entrance, messenger: Client) -> None:
    messenger.create_queue("charted")
    messenger.send_many([("charted", f"{n}") for n in range(50)])
    page = await enter("/queues/charted")
    await page.wait_for_load_state("networkidle")
    assert await page.evaluate("typeof Plotly") == "undefined", "it is large, and nobody sees a chart"
    await page.locator("#depth").scroll_into_view_if_needed()
    await page.wait_for_selector("#depth[data-drawn] .main-svg")


async def test_sending(enter: Entrance, messenger: Client) -> None:
    messenger.create_queue("sent to")
    page = await enter("/queues/sent%20to", allowed="40[045]")
    await page.get_by_role("link", name="Send", exact=True).click()
    await page.get_by_label("Body", exact=True).fill("two\nlines")
    await page.get_by_label("Priority").select_option("9")
    await page.get_by_label("Receiver").fill(messenger.name)
    await page.get_by_label("Context").fill("77")
    await page.get_by_label("Expires after").fill("2h")
    await page.get_by_label("Headers").fill("kind: test\nlink: http://x")
    await page.get_by_label("Delay").fill("soon")
    await page.get_by_role("button", name="Send").click()
    await expect(page.get_by_role("alert")).to_contain_text("'soon' is not a time")
    await expect(page.get_by_label("Body", exact=True)).to_have_value("two\nlines")
    await page.get_by_label("Delay").fill("")
    await page.get_by_role("button", name="Send").click()
    await expect(page.locator(".notice")).to_contain_text("was sent to sent to")
    message = messenger.receive("sent to")
    assert message is not None
    assert (message.sender, message.body, message.priority, message.receiver, message.context, message.headers) == (
        "console", b"two\nlines", 9, messenger.name, 77, {"kind": "test", "link": "http://x"},
    )  # fmt: skip

    await page.goto("/queues/sent%20to/send")
    await page.get_by_label("Body", exact=True).fill("00 ff")
    await page.get_by_label("Body format").select_option("hex")
    await page.get_by_label("Receiver").fill("nobody of this name")
    await page.get_by_role("button", name="Send").click()
    await expect(page.get_by_role("alert")).to_contain_text("nobody of this name")
    await page.get_by_label("Receiver").fill("")
    await page.get_by_role("button", name="Send").click()
    await expect(page.locator(".notice")).to_be_visible()
    message = messenger.receive("sent to")
    assert message is not None
    assert message.body == b"\x00\xff"


async def test_emptying_and_deleting(enter: Entrance, messenger: Client) -> None:
    messenger.create_queue("doomed")
    for n in range(3):
        messenger.send("doomed", f"{n}")
    page = await enter("/queues/doomed", allowed="409")
    await page.get_by_role("link", name="Purge", exact=True).click()
    await expect(page.get_by_text("3 ready messages and 0 delayed messages")).to_be_visible()
    await page.get_by_role("link", name="Back").click()
    assert messenger.queue("doomed").messages == 3
    await page.get_by_role("link", name="Purge", exact=True).click()
    await page.get_by_role("button", name="Purge the queue").click()
    await expect(page.locator(".notice")).to_have_text("3 messages were deleted from doomed")
    assert messenger.queue("doomed").messages == 0

    messenger.send("doomed", "one more")
    await page.get_by_role("link", name="Delete", exact=True).click()
    await page.get_by_role("button", name="Delete the queue").click()
    await expect(page.get_by_role("alert")).to_contain_text("still holds messages")
    await page.get_by_label("Also delete its messages").check()
    await page.get_by_role("button", name="Delete the queue").click()
    await page.wait_for_url("**/queues")
    await expect(page.locator(".notice")).to_have_text("queue doomed was deleted")
    with pytest.raises(QueueNotFound):
        messenger.queue("doomed")

    await page.goto(f"/queues/%40{messenger.name}")
    await expect(page.get_by_role("link", name="Purge", exact=True)).to_be_visible()
    await expect(page.get_by_role("link", name="Delete", exact=True)).to_have_count(0)


def kill(messenger: Client, queue: str, count: int) -> None:
    """Have messages of a queue die."""
    for n in range(count):
        messenger.send(queue, f"{n}")
        with messenger.lease(queue) as lease:
            assert lease is not None
            lease.nack()


async def test_dead_letters(enter: Entrance, messenger: Client) -> None:
    messenger.create_queue("deadly", max_deliveries=1)
    kill(messenger, "deadly", 2)
    page = await enter("/queues/deadly")
    await follow(page.get_by_role("link", name="dead 2"))
    assert len(await rows(page)) == 2
    await page.get_by_role("link", name="Redrive dead messages").click()
    await page.get_by_role("button", name="Redrive dead messages").click()
    await expect(page.locator(".notice")).to_have_text("2 dead messages of deadly were redriven")
    assert messenger.queue("deadly").messages == 2
    assert messenger.purge("deadly") == 2

    kill(messenger, "deadly", 1)
    await page.goto("/queues/deadly?state=dead")
    await page.get_by_role("link", name="Delete dead messages").click()
    await page.get_by_role("button", name="Delete dead messages").click()
    await expect(page.locator(".notice")).to_contain_text("1 dead message of deadly was deleted")
    await page.get_by_role("link", name="dead 0").click()
    await expect(page.locator("#messages")).to_contain_text("No dead messages")


ACTIONS = ("/queues/-/new", "/queues/kept/send", "/queues/kept/purge", "/queues/kept/delete", "/queues/kept/redrive",
           "/queues/kept/delete-dead")  # fmt: skip


async def test_viewers_may_look_only(enter: Entrance, system: System, messenger: Client) -> None:
    messenger.create_queue("kept", exist_ok=True)
    messenger.send("kept", "still here")
    page = await enter("/queues/kept", secret=system.viewers_secret(), allowed="403")
    await expect(page.get_by_role("heading", level=1)).to_have_text("kept")
    await expect(page.locator(".actions .button")).to_have_count(0)
    await page.goto("/queues")
    await expect(page.get_by_role("link", name="New queue")).to_have_count(0)
    token = await token_of(page)
    for action in ACTIONS:
        answer = await forced(page, action, token=token)
        assert (answer.status, (await answer.json())["error"]) == (403, "PermissionDenied"), action
        assert "viewers cannot change anything" in (await answer.json())["message"]
        opened = await page.goto(action)
        assert opened is not None
        assert opened.status == 403
    assert messenger.queue("kept").messages >= 1


async def test_forms_must_be_ours(enter: Entrance, system: System, messenger: Client) -> None:
    messenger.create_queue("kept", exist_ok=True)
    messenger.send("kept", "still here")
    page = await enter("/queues/kept")
    token = await token_of(page)
    for action in ACTIONS:
        for answer in (
            await forced(page, action),
            await forced(page, action, token="0" * 64),
            await forced(page, action, token=token, origin="https://elsewhere.example"),
            await forced(page, action, token=token, origin="null"),
        ):
            assert answer.status == 403, action
    assert messenger.queue("kept").messages >= 1
    assert (await forced(page, "/queues/kept/purge", token=token, origin=system.web)).status == 303


async def test_what_is_not_there(enter: Entrance, messenger: Client) -> None:
    page = await enter("/queues/never-made", allowed="40[04]")
    await expect(page.get_by_role("alert")).to_contain_text("never-made")
    messenger.create_queue("there")
    for path in (
        "/queues/there?after=rubbish",
        "/queues?after=rubbish",
        "/queues/there?state=gone",
        "/queues?order=up",
    ):
        answer = await page.request.get(path, headers={"Accept": "text/html"})
        assert answer.status in (400, 422), path
