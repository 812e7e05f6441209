"""The REST API, through a real web process, broker and database."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from urllib.parse import quote

import httpx
import pytest

from tests.support.web_process import Web


@pytest.fixture
async def api(site: Web) -> AsyncIterator[httpx.AsyncClient]:
    async with site.api() as client:
        yield client


async def answer(request: object, status: int = 200) -> dict[str, object]:
    response: httpx.Response = await request  # type: ignore[misc]
    assert response.status_code == status, response.text
    found: dict[str, object] = response.json() if response.content else {}
    return found


NAMES = [
    "jobs",
    "a/b",
    "..",
    ".",
    "~",
    "~x",
    "q?x=1#y",
    "100%",
    "%2e%2e",
    "ünïcode 漢",
    "<script>alert(1)</script>",
    "messages",
]


@pytest.mark.parametrize("name", NAMES)
async def test_a_queue_lives_under_any_name(api: httpx.AsyncClient, name: str) -> None:
    made = await answer(api.post("/api/v1/queues", json={"name": name, "max_deliveries": 2}), 201)
    assert (made["name"], made["creator"], made["max_deliveries"]) == (name, "operator", 2)
    tilde = "~" if name in (".", "..") or name.startswith("~") else ""
    path = f"/api/v1/queues/{quote(tilde + name, safe='')}"

    ids = (await answer(api.post(f"{path}/messages", json={"body": "hello", "priority": 9}), 201))["ids"]
    assert isinstance(ids, list)
    page = await answer(api.get(f"{path}/messages", params={"priority": 9}))
    assert [row["id"] for row in page["items"]] == ids  # type: ignore[attr-defined]
    one = await answer(api.get(f"{path}/messages/{ids[0]}"))
    assert (one["queue"], one["state"], one["body"], one["sender"]) == (name, "ready", "hello", "console")
    assert (await answer(api.get(path)))["ready"] == 1
    assert (await answer(api.delete(path), 409))["error"] == "QueueNotEmpty"

    received = await answer(api.post(f"{path}/receive", json={}))
    assert [message["body"] for message in received["messages"]] == ["hello"]  # type: ignore[attr-defined]
    assert (await answer(api.get(f"{path}/messages/{ids[0]}"), 404))["error"] == "NotFound"
    await answer(api.delete(path), 204)
    assert (await answer(api.get(path), 404))["error"] == "QueueNotFound"


async def test_bytes_come_back_as_they_were(api: httpx.AsyncClient) -> None:
    await answer(api.post("/api/v1/queues", json={"name": "raw"}), 201)
    coded = base64.b64encode(bytes(range(256))).decode()
    await answer(api.post("/api/v1/queues/raw/messages", json={"body_base64": coded}), 201)
    found = await answer(api.post("/api/v1/queues/raw/receive", json={"count": 5}))
    assert [(m["body"], m["body_base64"]) for m in found["messages"]] == [(None, coded)]  # type: ignore[attr-defined]


async def test_a_receive_waits_for_a_message(api: httpx.AsyncClient) -> None:
    await answer(api.post("/api/v1/queues", json={"name": "later"}), 201)
    waiting = asyncio.create_task(answer(api.post("/api/v1/queues/later/receive", json={"wait": 20})))
    await answer(api.post("/api/v1/queues/later/messages", json={"body": "there"}), 201)
    assert [message["body"] for message in (await waiting)["messages"]] == ["there"]  # type: ignore[attr-defined]


async def test_purge_counts_and_is_written_down(api: httpx.AsyncClient) -> None:
    await answer(api.post("/api/v1/queues", json={"name": "full"}), 201)
    for number in range(3):
        await answer(api.post("/api/v1/queues/full/messages", json={"body": str(number)}), 201)
    assert await answer(api.post("/api/v1/queues/full/purge")) == {"messages": 3}
    lines = (await answer(api.get("/api/v1/audit")))["items"]
    assert isinstance(lines, list)
    assert (lines[0]["action"], lines[0]["subject"], lines[0]["detail"]) == ("purge", "full", "3 messages")


@pytest.mark.parametrize("path", ["delete-dead", "bury"])  # the latter is its name in earlier versions
async def test_dead_messages_are_deleted(api: httpx.AsyncClient, path: str) -> None:
    await answer(api.post("/api/v1/queues", json={"name": f"dying {path}"}), 201)
    assert await answer(api.post(f"/api/v1/queues/dying {path}/{path}")) == {"messages": 0}
    lines = (await answer(api.get("/api/v1/audit")))["items"]
    assert isinstance(lines, list)
    assert (lines[0]["action"], lines[0]["detail"]) == ("delete dead messages", "0 messages")


async def test_a_client_is_shown_and_disconnected(api: httpx.AsyncClient) -> None:
    await answer(api.post("/api/v1/queues", json={"name": "jobs"}), 201)
    await answer(api.post("/api/v1/queues/jobs/receive", json={}))  # the console itself is a client from then on
    found = await answer(api.get("/api/v1/clients", params={"online": True}))
    assert [client["name"] for client in found["items"]] == ["console"]  # type: ignore[attr-defined]
    assert (await answer(api.get("/api/v1/clients/console")))["has_secret"] is True
    assert await answer(api.post("/api/v1/clients/console/disconnect")) == {"told": True}
    await answer(api.post("/api/v1/queues/jobs/messages", json={"body": "again"}), 201)  # it comes back by itself
    assert (await answer(api.get("/api/v1/clients/nobody"), 404))["error"] == "ClientNotFound"


CHANGES = [
    ("POST", "/api/v1/queues"), ("DELETE", "/api/v1/queues/x"), ("POST", "/api/v1/queues/x/purge"),
    ("POST", "/api/v1/queues/x/redrive"), ("POST", "/api/v1/queues/x/delete-dead"),
    ("POST", "/api/v1/queues/x/messages"),
    ("POST", "/api/v1/queues/x/receive"), ("DELETE", "/api/v1/clients/x"), ("POST", "/api/v1/clients/x/disconnect"),
    ("POST", "/api/v1/brokers/1/drain"),
]  # fmt: skip
FORMER_PATHS = [("POST", "/api/v1/queues/x/bury")]
"""They work for one more version, and are not described."""


async def test_who_may_only_look_changes_nothing(site: Web) -> None:
    async with site.api(site.viewer) as viewer, site.api("") as stranger, site.api("guess") as guesser:
        assert (await viewer.get("/api/v1/overview")).status_code == 200
        described = (await stranger.get("/api/openapi.json")).json()
        unsafe = {(m.upper(), path.replace("{queue}", "x").replace("{client}", "x").replace("{broker}", "1"))
                  for path, methods in described["paths"].items() for m in methods if m != "get"}  # fmt: skip
        assert unsafe == set(CHANGES), "a new change must be added here"
        for method, path in [*CHANGES, *FORMER_PATHS]:
            body = {"name": "x", "body": "x"} if method == "POST" else None
            assert (await viewer.request(method, path, json=body)).json()["error"] == "PermissionDenied", path
            assert (await stranger.request(method, path, json=body)).status_code == 401, path
        assert (await guesser.get("/api/v1/overview")).status_code == 401


async def test_guessing_is_slowed_down(web: Web) -> None:
    async with web.api("guess") as guesser, web.api() as admin:
        statuses = [(await guesser.get("/api/v1/overview")).status_code for _ in range(11)]
        assert statuses == [401] * 10 + [429]
        assert (await admin.get("/api/v1/overview")).status_code == 200


async def test_a_cookie_alone_changes_nothing(site: Web) -> None:
    async with site.api("") as browser:
        entered = await browser.post("/login", data={"secret": site.admin, "next": "//evil.example"})
        assert (entered.status_code, entered.headers["location"]) == (303, "/")
        cookie = entered.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        refused = await browser.post("/api/v1/queues", json={"name": "x"})
        assert (refused.status_code, refused.json()["error"]) == (403, "PermissionDenied")
        foreign = await browser.post("/login", data={"secret": site.admin}, headers={"Origin": "https://evil.example"})
        assert foreign.status_code == 403


@pytest.mark.parametrize(
    ("path", "body", "sentence"),
    [
        ("/api/v1/queues", {"name": "x", "colour": "red"}, "colour: extra inputs are not permitted"),
        ("/api/v1/queues/x/messages", {}, "give either body or body_base64"),
        ("/api/v1/queues/x/messages", {"body_base64": "?"}, "body_base64 is not base64"),
        ("/api/v1/queues/x/messages", {"body": "x", "priority": 11}, "priority"),
    ],
)
async def test_bad_input_is_told_in_a_sentence(
    api: httpx.AsyncClient, path: str, body: dict[str, object], sentence: str
) -> None:
    refused = await answer(api.post(path, json=body), 422)
    assert sentence in str(refused["message"])


async def test_every_answer_is_guarded(api: httpx.AsyncClient) -> None:
    for path in ("/api/v1/overview", "/login", "/static/stafette.css", "/nowhere"):
        headers = (await api.get(path)).headers
        assert "script-src 'self'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
