"""Clients: the list, one client, disconnecting and deleting it."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

import stafette
from stafette.client.sync import Client
from stafette.errors import ClientNotFound
from tests.support.browser_pages import Entrance, follow, following_pages, forced, looks_well, token_of
from tests.support.stafette_up import System
from tests.support.waiting import until


async def test_the_list(enter: Entrance, system: System, messenger: Client) -> None:
    for n in range(60):
        with stafette.connect(system.broker, name=f"many-{n:02}"):
            pass
    page = await enter("/clients?text=MANY-")
    seen = [len(await each.locator("#list tbody tr").all()) async for each in following_pages(page)]
    assert seen == [50, 10]
    await page.get_by_label("Show").select_option("online")
    await page.get_by_role("button", name="Filter").click()
    await expect(page.locator("#list")).to_contain_text("No matching clients")
    await page.goto(f"/clients?online=yes&text={messenger.name}")
    row = page.get_by_role("row", name=messenger.name)
    await expect(row).to_contain_text("online")
    await looks_well(enter, "/clients?text=many-5")


async def test_a_client(enter: Entrance, system: System, messenger: Client) -> None:
    me = messenger.name
    with stafette.connect(system.broker, name="the other", secret="sesame") as other:
        messenger.create_queue("work/place")
        for n in range(60):
            messenger.send("work/place", f"to anyone {n}", context=n)
        other.send("work/place", "to me", receiver=me)
        other.send(f"@{me}", "personal")
        page = await enter(f"/clients/{me}")
        await expect(page.locator("#properties")).to_contain_text("online at")
        with other.lease("work/place", seconds=600):
            await page.goto("/clients/the%20other")
            await expect(page.locator("#properties")).to_contain_text("set")
            await expect(page.locator("#leases tbody tr")).to_have_count(1)
            await looks_well(enter, "/clients/the%20other")
        await page.goto(f"/clients/{me}")
        seen = [len(await each.locator("#messages tbody tr").all()) async for each in following_pages(page)]
        assert seen == [50, 9], "one was leased, and done with"
        await follow(page.get_by_role("link", name="addressed to it"))
        await expect(page.locator("#messages tbody")).to_contain_text("to me")
        await expect(page.locator("#messages tbody")).not_to_contain_text("to anyone")
        waiting = page.get_by_role("region", name="Addressed to it, by queue")
        await follow(waiting.get_by_role("link", name="work/place"))
        assert page.url.endswith(f"/queues/work%2Fplace?receiver={me}")
        await expect(page.locator("#messages tbody tr")).to_have_count(1)


async def test_disconnecting_and_deleting(enter: Entrance, system: System) -> None:
    victim = stafette.connect(system.broker, name="victim")
    page = await enter("/clients/victim", allowed="409")
    await page.get_by_role("link", name="Delete", exact=True).click()
    await page.get_by_role("button", name="Delete the client").click()
    await expect(page.get_by_role("alert")).to_contain_text("victim is online")
    await page.get_by_role("link", name="Back").click()
    await page.get_by_role("link", name="Disconnect").click()
    await page.get_by_role("button", name="Disconnect the client").click()
    await expect(page.locator(".notice")).to_have_text("client victim is being disconnected")
    victim.close()
    await expect(page.locator("#properties")).to_contain_text("offline", timeout=20_000)
    await expect(page.get_by_role("link", name="Disconnect")).to_have_count(0)
    await page.get_by_role("link", name="Delete", exact=True).click()
    await looks_well(enter, "/clients/victim/delete")
    await page.get_by_role("button", name="Delete the client").click()
    await page.wait_for_url("**/clients")
    await expect(page.locator(".notice")).to_have_text("client victim was deleted")
    with stafette.connect(system.broker, name="witness") as witness, pytest.raises(ClientNotFound):
        witness.client("victim")


async def test_a_client_that_is_disconnected_loses_its_session_and_may_come_back(
    enter: Entrance, messenger: Client
) -> None:
    page = await enter(f"/clients/{messenger.name}/disconnect")

    async def online_since() -> str | None:
        answer = await page.request.get(f"/api/v1/clients/{messenger.name}")
        since: str | None = (await answer.json())["online_since"]
        return since

    before = await online_since()
    assert before is not None
    await expect(page.get_by_text("It is online at")).to_be_visible()
    await page.get_by_role("button", name="Disconnect the client").click()
    await expect(page.locator(".notice")).to_be_visible()

    async def is_back() -> bool:
        return await online_since() != before

    await until(is_back)
    assert messenger.ping() >= 0


async def test_viewers_may_look_only(enter: Entrance, system: System, messenger: Client) -> None:
    page = await enter(f"/clients/{messenger.name}", secret=system.viewers_secret(), allowed="403")
    await expect(page.get_by_role("heading", level=1)).to_have_text(messenger.name)
    await expect(page.locator(".actions .button")).to_have_count(0)
    for action in ("disconnect", "delete"):
        path = f"/clients/{messenger.name}/{action}"
        assert (await forced(page, path, token=await token_of(page))).status == 403


async def test_forms_must_be_ours(enter: Entrance, messenger: Client) -> None:
    page = await enter("/clients")
    token = await token_of(page)
    for action in ("disconnect", "delete"):
        path = f"/clients/{messenger.name}/{action}"
        assert (await forced(page, path)).status == 403
        assert (await forced(page, path, token=token, origin="https://elsewhere.example")).status == 403
