"""Every route of the console, and who may use it: one table, compared with the application.

A new route without a row fails. Each row is tried by nobody, a viewer, an administrator, an administrator whom another
site leads there, with a body that is too large, and with one that never comes.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

from fastapi.routing import iter_route_contexts
from starlette.routing import Mount

from stafette.web.access import SAFE_METHODS
from stafette.web.app import make_app
from stafette.web.bodies import IMPORT_BYTES
from stafette.web.site import WebSettings
from tests.support.raw_http import Connect, answer_to
from tests.support.web_process import Web

ANYONE = """
    GET /api/openapi.json    HEAD /api/openapi.json    GET /static/{file}    GET /static/plotly.min.js
    GET /login    POST /login
"""
VIEWERS = """
    POST /logout
    GET /    GET /charts/{chart}    GET /clients    GET /clients/{name}    GET /brokers    GET /search    GET /audit
    GET /api    GET /queues    GET /queues/{name}    GET /queues/{name}/depth
    GET /queues/{name}/messages/{number}    GET /queues/{name}/messages/{number}/body
    GET /lab    GET /lab/compare    GET /lab/experiments/{name}    GET /lab/library/{name}
    GET /lab/queue/{id}    GET /lab/queue/{id}/events
    GET /lab/series/{name}    GET /lab/series/{name}/figures/{section}/{number}    GET /lab/series/{name}/report.html
    GET /lab/series/{name}/zip    GET /lab/series/{name}/experiment.toml    GET /lab/series/{name}/runs/{number}
    GET /lab/series/{name}/runs/{number}/logs/{file}
    GET /api/v1/overview    GET /api/v1/history    GET /api/v1/brokers    GET /api/v1/search    GET /api/v1/audit
    GET /api/v1/queues    GET /api/v1/queues/{queue}    GET /api/v1/queues/{queue}/messages
    GET /api/v1/queues/{queue}/messages/{message}    GET /api/v1/clients    GET /api/v1/clients/{client}
"""
ADMINISTRATORS = """
    GET /queues/-/new    POST /queues/-/new    GET /queues/{name}/send    POST /queues/{name}/send
    GET /queues/{name}/purge    POST /queues/{name}/purge    GET /queues/{name}/delete    POST /queues/{name}/delete
    GET /queues/{name}/redrive    POST /queues/{name}/redrive
    GET /queues/{name}/delete-dead    POST /queues/{name}/delete-dead
    GET /clients/{name}/disconnect    POST /clients/{name}/disconnect
    GET /clients/{name}/delete    POST /clients/{name}/delete
    GET /brokers/{number}/drain    POST /brokers/{number}/drain
    POST /lab/import    POST /lab/check    GET /lab/experiments/new    POST /lab/experiments
    GET /lab/experiments/{name}/delete    POST /lab/experiments/{name}/delete
    POST /lab/queue    POST /lab/queue/series    POST /lab/queue/{id}/up    POST /lab/queue/{id}/remove
    POST /lab/queue/{id}/stop    GET /lab/series/{name}/delete    POST /lab/series/{name}/delete
    POST /api/v1/brokers/{broker}/drain    POST /api/v1/queues    DELETE /api/v1/queues/{queue}
    POST /api/v1/queues/{queue}/purge    POST /api/v1/queues/{queue}/redrive    POST /api/v1/queues/{queue}/bury
    POST /api/v1/queues/{queue}/delete-dead    POST /api/v1/queues/{queue}/messages
    POST /api/v1/queues/{queue}/receive    DELETE /api/v1/clients/{client}    POST /api/v1/clients/{client}/disconnect
"""

TOO_LARGE = str(IMPORT_BYTES + 1)
NOBODYS = "987654321"
"""A number, and a name, that nothing here has."""

Row = tuple[str, str]


def rows(table: str) -> list[Row]:
    """Method and path of each route in a table."""
    words = table.split()
    return list(zip(words[::2], words[1::2], strict=True))


ROLES = {"anyone": ANYONE, "viewer": VIEWERS, "administrator": ADMINISTRATORS}
TABLE = {row: role for role, table in ROLES.items() for row in rows(table)}


def routes() -> Iterator[Row]:
    """Method and path of each route of the application."""
    nowhere = Path("/nonexistent")
    app = make_app(WebSettings(database="", data=nowhere, runs=nowhere, experiments=nowhere))
    for route in iter_route_contexts(app.routes):
        path = re.sub(r"\{(\w+):\w+\}", r"{\1}", route.path or "")
        if isinstance(route.original_route, Mount):
            yield "GET", f"{path}/{{file}}"
        else:
            yield from ((method, path) for method in route.methods or ())


def test_every_route_has_a_row() -> None:
    assert sorted(routes()) == sorted(TABLE)


def headers(method: str, path: str, secret: str | None) -> dict[str, str]:
    """What a program sends along that has a secret or has none."""
    kind = "application/json" if path.startswith("/api/") else "application/x-www-form-urlencoded"
    authorization = {} if secret is None else {"Authorization": f"Bearer {secret}"}
    return authorization | ({} if method in SAFE_METHODS else {"Content-Type": kind})


async def statuses(web: Web, secret: str | None, **further: str) -> dict[Row, int]:
    """What each route answers to a header."""
    answers = {}
    for method, path in TABLE:
        url = re.sub(r"\{(\w+)\}", NOBODYS, path)
        sent = headers(method, path, secret) | {name.replace("_", "-"): value for name, value in further.items()}
        answers[method, path] = (await answer_to(web.url, method, url, sent, has_body=method != "HEAD")).status
    return answers


def refused(answers: dict[Row, int], *refusals: int) -> set[Row]:
    return {row for row, status in answers.items() if status in refusals}


def of(*roles: str) -> set[Row]:
    return {row for row, role in TABLE.items() if role in roles}


def changes(*roles: str) -> set[Row]:
    return {row for row in of(*roles) if row[0] not in SAFE_METHODS}


async def test_who_may_use_which_route(site: Web) -> None:
    nobody, viewer, administrator = [await statuses(site, secret) for secret in (None, site.viewer, site.admin)]
    assert refused(nobody, 401) == of("viewer", "administrator")
    assert refused(viewer, 401, 403) == of("administrator")
    assert refused(administrator, 401, 403) == set()
    assert all(status < 500 for answers in (nobody, viewer, administrator) for status in answers.values())


async def test_what_another_site_leads_to(site: Web) -> None:
    answers = await statuses(site, site.admin, Origin="https://evil.example")
    assert refused(answers, 403) == changes("anyone", "viewer", "administrator")


async def test_what_a_browser_sends_without_a_token(site: Web) -> None:
    """A cookie alone changes nothing, whether the token would be in the header or in a form."""
    async with site.api("") as browser:
        await browser.post("/login", data={"secret": site.admin})
        for method, path in changes("administrator"):
            url, body = re.sub(r"\{(\w+)\}", NOBODYS, path), "{}" if path.startswith("/api/") else "name=x"
            answer = await browser.request(method, url, content=body, headers=headers(method, path, None))
            assert (answer.status_code, answer.json()["error"]) == (403, "PermissionDenied"), path


async def test_what_is_too_large_is_refused_unread(site: Web) -> None:
    nobody, viewer, administrator = [
        await statuses(site, secret, Content_Length=TOO_LARGE) for secret in (None, site.viewer, site.admin)
    ]
    assert refused(nobody, 401) == of("viewer", "administrator")
    assert refused(nobody, 413, 415) == of("anyone")
    assert refused(viewer, 413, 415) | refused(viewer, 403) == set(TABLE)
    assert refused(viewer, 403) == changes("administrator")
    assert refused(administrator, 413, 415) == set(TABLE)


async def test_what_never_comes_is_not_awaited(site: Web, connect: Connect) -> None:
    """Strangers and viewers are answered at once; an administrator is waited for, and then disconnected."""

    async def answer(row: Row, secret: str | None) -> int | None:
        """The status; None if the console hung up without an answer."""
        method, path = row
        connection = await connect(site.url)
        sent = headers(method, path, secret) | {"Content-Length": "1000"}
        connection.begin(method, re.sub(r"\{(\w+)\}", NOBODYS, path), sent, b"{")
        try:
            return (await connection.answer()).status
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    for secret in (None, site.viewer):
        answers = {row: await answer(row, secret) for row in changes("administrator")}
        assert set(answers.values()) == {401 if secret is None else 403}
    late = await asyncio.gather(*(answer(row, site.admin) for row in changes("administrator")))
    assert all(status is None or 400 <= status < 500 for status in late)
    assert None in late
