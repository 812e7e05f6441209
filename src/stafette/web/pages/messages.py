"""One message: what it says, and what has happened to it so far."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from stafette.database.views import MessageDetails, QueueDetails
from stafette.web import bodies
from stafette.web.access import TheSite, Viewer
from stafette.web.bodies import View
from stafette.web.fields import BIGINT, address
from stafette.web.pages.queues import home
from stafette.web.rendering import page

router = APIRouter()


@dataclass(frozen=True)
class Event:
    """A point of a message's life."""

    what: str
    at: datetime | None = None
    client: str | None = None
    note: str = ""
    coming: bool = False


def life_of(message: MessageDetails, queue: QueueDetails, now: datetime) -> list[Event]:
    """What has happened to a message, what is, and what will be, in order."""
    life = [Event("arrived", message.arrived_at, message.sender, "sent by")]
    limit = f"{message.deliveries} of {queue.max_deliveries}"
    if message.state == "leased":
        until = message.leased_until
        late = until is not None and until < now
        life.append(Event(f"leased, delivery {limit}", None, message.holder, "held by"))
        life.append(
            Event("its lease ran out; a broker gives it back" if late else "its lease ends", until, coming=True)
        )
    elif message.deliveries:
        life.append(Event(f"delivered {limit} times, and given back each time"))
    if message.state == "delayed":
        life.append(Event("delayed; becomes ready", message.due_at, coming=True))
    elif message.state == "ready":
        life.append(Event("ready now", None, message.receiver, "waits for"))
    elif message.state == "dead":
        life.append(Event("died: it was delivered too often", message.died_at))
    if message.expires_at is not None:
        life.append(Event("expires", message.expires_at, coming=message.expires_at > now))
    return life


async def found(site: TheSite, name: str, number: int) -> MessageDetails | None:
    """A message, unless it has gone."""
    return await site.console.message(name, number) if number < BIGINT else None


def gone(request: Request, name: str, number: int) -> Response:
    """The page in the place of a message that is no more."""
    sentence = f"queue {name} has no message {number} any more; it was received, has expired, or was removed"
    return page(request, "gone.html", {"queue": name, "base": home(name), "sentence": sentence}, status=404)


@router.get("/queues/{name:name}/messages/{number:int}")
async def message(
    request: Request,
    site: TheSite,
    _who: Viewer,
    name: str,
    number: int,
    view: View | None = None,
    start: Annotated[int, Query(alias="from", ge=0, lt=BIGINT)] = 0,
) -> Response:
    """A message as text, JSON or hexadecimal."""
    queue = await site.console.queue(name)
    details = await found(site, name, number)
    if details is None:
        return gone(request, name, number)
    kind = view or bodies.natural_view(details.body)
    shown = bodies.view(details.body, kind, start)
    here = f"{home(name)}/messages/{number}"
    values = {
        "queue": queue,
        "base": home(name),
        "here": here,
        "message": details,
        "life": life_of(details, queue, datetime.now(UTC)),
        "view": kind,
        "views": {each: address(here, view=each) for each in ("text", "json", "hex")},
        "shown": shown,
        "first": address(here, view=kind) if shown.start else None,
        "next": address(here, view=kind, **{"from": shown.end}) if 0 < shown.end < details.size else None,
    }
    return page(request, "message.html", values)


@router.get("/queues/{name:name}/messages/{number:int}/body")
async def body(request: Request, site: TheSite, _who: Viewer, name: str, number: int) -> Response:
    """The body as a file: bytes that no browser may take for a page."""
    details = await found(site, name, number)
    if details is None:
        return gone(request, name, number)
    headers = {"Content-Disposition": f'attachment; filename="message-{number}.bin"'}
    return Response(details.body, media_type="application/octet-stream", headers=headers)
