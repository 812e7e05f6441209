"""Clients: who they are, where they are online, what they have sent and what waits for them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from stafette.database.views import ClientDetails, Which
from stafette.errors import CallerError, StafetteError
from stafette.web.access import Administrator, TheSite, Viewer
from stafette.web.fields import address
from stafette.web.naming import in_address
from stafette.web.problems import status_of
from stafette.web.rendering import done, number, page

router = APIRouter()

ONLINE = {"": "all clients", "yes": "online", "no": "offline"}


def home(client: str) -> str:
    """The address of a client."""
    return f"/clients/{in_address(client)}"


@router.get("/clients")
async def clients(
    request: Request,
    site: TheSite,
    _who: Viewer,
    text: str = "",
    online: Annotated[str, Query(pattern="^(yes|no|)$")] = "",
    after: str | None = None,
) -> Response:
    """A page of the list."""
    only = {"yes": True, "no": False}.get(online)
    found, following = await site.console.clients(text=text, online=only, after=after or None)
    here = {"text": text, "online": online}
    values = {
        "clients": found,
        "stock": await site.console.stock(),
        "text": text,
        "online": online,
        "onlines": ONLINE,
        "first": address("/clients", **here) if after else None,
        "next": address("/clients", **here, after=following) if following else None,
    }
    return page(request, "clients.html", values)


@router.get("/clients/{name:name}")
async def client(
    request: Request, site: TheSite, _who: Viewer, name: str, which: Which = "sent", after: str | None = None
) -> Response:
    """One client, and a page of its messages."""
    details = await site.console.client(name)
    found = await site.console.client_messages(name, which, after=after or None)
    base = home(name)
    values = {
        "client": details,
        "base": base,
        "which": which,
        "tabs": {
            "sent": ("sent, not yet received", base),
            "waiting": ("waiting for it", address(base, which="waiting")),
        },
        "messages": found,
        "first": address(base, which=which) if after else None,
        "next": address(base, which=which, after=found.next) if found.next else None,
    }
    return page(request, "client.html", values)


def _ask_page(
    request: Request, client: ClientDetails, action: str, question: str, wrong: StafetteError | None = None
) -> Response:
    values = {
        "title": f"{action} {client.name}?",
        "question": question,
        "doubt": None,
        "button": f"{action} the client",
        "dangerous": True,
        "crumbs": [("/clients", "Clients"), (home(client.name), client.name)],
        "back": home(client.name),
        "wrong": None if wrong is None else str(wrong),
    }
    return page(request, "confirm.html", values, status=200 if wrong is None else status_of(wrong))


def _disconnecting(client: ClientDetails) -> str:
    where = f"It is online at {client.broker}." if client.broker else "It is offline."
    return (
        f"{where} Its session is ended and its connection closed; it may connect again, which most clients do at once."
    )


def _deleting(client: ClientDetails) -> str:
    waiting = sum(each.count for each in client.waiting)
    online = " It is online: disconnect it first." if client.broker else ""
    return (
        f"Its name becomes free, and its personal queue and all that waits for it are removed for good:"
        f" {number(waiting)} addressed to it.{online} What it has sent stays."
    )


@router.get("/clients/{name:name}/disconnect")
async def ask_disconnect(request: Request, site: TheSite, _who: Administrator, name: str) -> Response:
    """Ask first."""
    client = await site.console.client(name)
    return _ask_page(request, client, "Disconnect", _disconnecting(client))


@router.post("/clients/{name:name}/disconnect")
async def disconnect(site: TheSite, who: Administrator, name: str) -> Response:
    """Have its broker end its session."""
    if not await site.console.disconnect(who, name):
        return done(home(name), f"client {name} was offline already")
    return done(home(name), f"the broker of {name} was told to disconnect it")


@router.get("/clients/{name:name}/delete")
async def ask_delete(request: Request, site: TheSite, _who: Administrator, name: str) -> Response:
    """Ask first."""
    client = await site.console.client(name)
    return _ask_page(request, client, "Delete", _deleting(client))


@router.post("/clients/{name:name}/delete")
async def delete(request: Request, site: TheSite, who: Administrator, name: str) -> Response:
    """Delete a client that is offline."""
    try:
        await site.console.delete_client(who, name)
    except CallerError as error:
        client = await site.console.client(name)
        return _ask_page(request, client, "Delete", _deleting(client), error)
    return done("/clients", f"client {name} was deleted")
