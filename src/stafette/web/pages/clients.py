"""Clients: the list, and one client with the messages it sent and those addressed to it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from stafette.database.views import ClientDetails, Which
from stafette.errors import CallerError, StafetteError
from stafette.web.access import Administrator, TheSite, Viewer
from stafette.web.fields import build_url
from stafette.web.naming import path_segment
from stafette.web.problems import status_of
from stafette.web.rendering import page, plural, redirect

router = APIRouter()

ONLINE = {"": "all clients", "yes": "online", "no": "offline"}


def client_url(client: str) -> str:
    """The URL of a client's page."""
    return f"/clients/{path_segment(client)}"


@router.get("/clients")
async def clients(
    request: Request,
    site: TheSite,
    _operator: Viewer,
    text: str = "",
    online: Annotated[str, Query(pattern="^(yes|no|)$")] = "",
    after: str | None = None,
) -> Response:
    """A page of the list."""
    only = {"yes": True, "no": False}.get(online)
    rows, next_after = await site.console.clients(text=text, online=only, after=after or None)
    query = {"text": text, "online": online}
    values = {
        "clients": rows,
        "counts": await site.console.message_counts(),
        "text": text,
        "online": online,
        "onlines": ONLINE,
        "first": build_url("/clients", **query) if after else None,
        "next": build_url("/clients", **query, after=next_after) if next_after else None,
    }
    return page(request, "clients.html", values)


@router.get("/clients/{name:name}")
async def client(
    request: Request, site: TheSite, _operator: Viewer, name: str, which: Which = "sent", after: str | None = None
) -> Response:
    """One client, and a page of its messages."""
    details = await site.console.client(name)
    messages = await site.console.client_messages(name, which, after=after or None)
    base = client_url(name)
    values = {
        "client": details,
        "base": base,
        "which": which,
        "tabs": {
            "sent": ("sent, not yet received", base),
            "waiting": ("addressed to it", build_url(base, which="waiting")),
        },
        "messages": messages,
        "first": build_url(base, which=which) if after else None,
        "next": build_url(base, which=which, after=messages.next) if messages.next else None,
    }
    return page(request, "client.html", values)


def _confirm_page(
    request: Request, client: ClientDetails, action: str, question: str, error: StafetteError | None = None
) -> Response:
    values = {
        "title": f"{action} {client.name}?",
        "question": question,
        "condition": None,
        "button": f"{action} the client",
        "dangerous": True,
        "crumbs": [("/clients", "Clients"), (client_url(client.name), client.name)],
        "back": client_url(client.name),
        "problem": None if error is None else str(error),
    }
    return page(request, "confirm.html", values, status=200 if error is None else status_of(error))


def _disconnect_question(client: ClientDetails) -> str:
    state = f"It is online at {client.broker}." if client.broker else "It is offline."
    return f"{state} Its session ends and its connection is closed. Most clients connect again at once."


def _delete_question(client: ClientDetails) -> str:
    state = "It is online; disconnect it first." if client.broker else "It is offline."
    waiting = plural(sum(queue.count for queue in client.waiting), "message")
    return (
        f"{state} Its personal queue and the messages addressed to it ({waiting}) will be deleted permanently."
        " The messages it sent stay. Its name becomes free."
    )


@router.get("/clients/{name:name}/disconnect")
async def confirm_disconnect(request: Request, site: TheSite, _operator: Administrator, name: str) -> Response:
    """The page that asks for confirmation."""
    client = await site.console.client(name)
    return _confirm_page(request, client, "Disconnect", _disconnect_question(client))


@router.post("/clients/{name:name}/disconnect")
async def disconnect(site: TheSite, operator: Administrator, name: str) -> Response:
    """Tell its broker to end its session."""
    if not await site.console.disconnect(operator, name):
        return redirect(client_url(name), f"client {name} is already offline")
    return redirect(client_url(name), f"client {name} is being disconnected")


@router.get("/clients/{name:name}/delete")
async def confirm_delete(request: Request, site: TheSite, _operator: Administrator, name: str) -> Response:
    """The page that asks for confirmation."""
    client = await site.console.client(name)
    return _confirm_page(request, client, "Delete", _delete_question(client))


@router.post("/clients/{name:name}/delete")
async def delete(request: Request, site: TheSite, operator: Administrator, name: str) -> Response:
    """Delete a client that is offline."""
    try:
        await site.console.delete_client(operator, name)
    except CallerError as error:
        client = await site.console.client(name)
        return _confirm_page(request, client, "Delete", _delete_question(client), error)
    return redirect("/clients", f"client {name} was deleted")
