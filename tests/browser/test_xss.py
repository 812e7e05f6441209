"""Names, headers, bodies and addresses are text: whatever they contain, nothing of it runs, and every link works."""

from __future__ import annotations

from collections.abc import AsyncIterator
from urllib.parse import urlencode

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

import stafette
from stafette.web.naming import path_segment
from tests.support.browser_pages import Entrance, follow
from tests.support.stafette_up import System

TEXTS = {
    "markup": "' onfocus=window.ran=1 autofocus x='"
    "\"'></title></textarea></pre></code><script>ran=1</script><img src=x onerror=ran=1><svg onload=ran=1>",
    "template": "{{7*7}}${7*7}{% raise %}</pre></code><iframe srcdoc='<script>parent.ran=1</script>'>"
    "&lt;script&gt;window.ran=1&amp;lt;<!--<script>window.ran=1//--></script>",
    "javascript": "javascript:window.ran=1",
    "bidi": "  abc\u202egnp.exe\u2066x\u200f  \"'`\\  spaces  ",
}
"""Each in every place; what does not stand in another's way is tried together."""
NAMES = {
    "dots": "..",
    "dot": ".",
    "address": "a/b//c/%2e%2e%2f%3Cscript%3E?b=c&d=e#f;g",
    "tilde": "~..",
    "scheme": "//elsewhere.example/x",
}
"""These mean something to a browser as the address of a page, but nothing in a text."""
PAYLOADS = TEXTS | NAMES


@pytest_asyncio.fixture(params=PAYLOADS, loop_scope="session")
async def payload(request: pytest.FixtureRequest) -> str:
    """Something nasty."""
    return PAYLOADS[request.param]


@pytest_asyncio.fixture(loop_scope="session")
async def page(enter: Entrance) -> AsyncIterator[Page]:
    """A page that tells when something ran."""
    page = await enter("about:blank", allowed="40[04]")
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    yield page
    assert dialogs == []


async def opened(page: Page, path: str, status: int = 200) -> None:
    """Open an address; nothing must run there."""
    answer = await page.goto(path)
    assert answer is not None
    assert (answer.status, path) == (status, path)
    assert await page.evaluate("window.ran") is None
    assert await page.locator("iframe, main svg:not(.main-svg):not(.plot svg), main img").count() == 0


async def heading(page: Page) -> str | None:
    """What the page is about."""
    return await page.get_by_role("heading", level=1).text_content()


async def test_everything_is_text(page: Page, system: System, payload: str) -> None:
    with stafette.connect(system.broker, name=payload) as client:
        client.create_queue(payload)
        (sent,) = client.send(payload, payload, receiver=payload, headers={payload: payload}, context=1)
        client.send(payload, '{"a": "' + payload.replace("\\", "").replace('"', "") + '"}')

    queue, client_path = f"/queues/{path_segment(payload)}", f"/clients/{path_segment(payload)}"
    await opened(page, queue)
    assert await heading(page) == payload
    assert await page.title() == f"{' '.join(payload.split())} · Stafette"
    await follow(page.get_by_role("region", name="Senders", exact=True).get_by_role("link"))
    await expect(page.get_by_label("Sender", exact=True)).to_have_value(payload)
    await expect(page.locator("#messages tbody tr")).to_have_count(2)
    await follow(
        page.get_by_role("region", name="Receivers", exact=True).get_by_role("link").filter(has_not_text="anyone")
    )
    await expect(page.locator("#messages tbody tr")).to_have_count(1)
    await follow(page.locator("#messages tbody th a"))
    assert await heading(page) == f"Message {sent}"
    assert await page.evaluate("window.ran") is None
    for view in ("json", "hex", "text") if payload in TEXTS.values() else ():
        await opened(page, f"{queue}/messages/{sent}?view={view}")
        assert await page.locator("table th").nth(2).text_content() == payload
        assert await page.locator("table td").first.text_content() == payload
    if payload.isprintable():
        assert await page.locator("#body").text_content() == payload

    await follow(page.locator(".properties dd a").nth(1))
    assert await heading(page) == payload
    assert page.url == system.web + client_path
    await follow(page.get_by_role("region", name="Sent, not yet received, by queue").get_by_role("link").last)
    assert await heading(page) == payload

    for path in (f"{queue}/send", f"{queue}/delete", f"{client_path}/delete"):
        await opened(page, path)

    await opened(page, f"/queues?{urlencode({'text': payload, 'personal': 'no'})}")
    await follow(page.locator("#list tbody th a").get_by_text(payload, exact=True).first)
    assert await heading(page) == payload
    await opened(page, f"/clients?{urlencode({'text': payload})}")
    await expect(page.locator("#text")).to_have_value(payload)
    await opened(page, f"/search?{urlencode({'text': payload})}")
    await expect(page.locator("#search")).to_have_value(payload.strip())


async def test_so_are_addresses(page: Page, system: System) -> None:
    with stafette.connect(system.broker, name="xss") as client:
        client.create_queue("plain", exist_ok=True)
    for payload in TEXTS.values():
        await opened(page, f"/queues/plain?{urlencode(dict.fromkeys(('sender', 'receiver', 'text'), payload))}")
        for name in ("sender", "receiver", "text"):
            await expect(page.locator(f"#{name}")).to_have_value(payload)
        wrong = ("context", "priority", "older", "newer", "after")
        await opened(page, f"/queues/plain?{urlencode(dict.fromkeys(wrong, payload))}", 400)
        await expect(page.locator("#older")).to_have_value(payload)
    for payload in PAYLOADS.values():
        await opened(page, f"/queues/{path_segment('not ' + payload)}", 404)
        await opened(page, f"/clients/{path_segment('not ' + payload)}", 404)


async def test_an_action_says_what_it_did_as_text(page: Page, system: System) -> None:
    for payload in PAYLOADS.values():
        with stafette.connect(system.broker, name="xss") as client:
            client.create_queue(payload, exist_ok=True)
        await opened(page, f"/queues/{path_segment(payload)}/purge")
        await follow(page.get_by_role("button", name="Purge the queue"))
        assert await page.evaluate("window.ran") is None
        said = await page.locator(".notice").text_content()
        assert said is not None
        assert said.endswith(f"deleted from {payload}")
    await opened(page, "/audit")
    audited = await page.locator("#lines tbody td a").all_text_contents()
    assert audited[: len(PAYLOADS)] == list(reversed(PAYLOADS.values()))
