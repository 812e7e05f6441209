"""One message: its body, its headers and its history."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from stafette.database.views import MessageDetails, QueueDetails
from stafette.web.access import TheSite, Viewer
from stafette.web.body_views import Format, detect_format, render_body
from stafette.web.fields import BIGINT, build_url
from stafette.web.pages.queues import queue_url
from stafette.web.rendering import page

router = APIRouter()


@dataclass(frozen=True)
class Event:
    """An event in the history of a message."""

    label: str
    at: datetime | None = None
    client: str | None = None
    relation: str = ""
    """What the client has to do with the event."""
    is_future: bool = False


def history_of(message: MessageDetails, queue: QueueDetails, now: datetime) -> list[Event]:
    """Past, present and future of a message, in order."""
    events = [Event("arrived", message.arrived_at, message.sender, "sent by")]
    deliveries = f"{message.deliveries} of {queue.max_deliveries}"
    if message.state == "leased":
        until = message.leased_until
        has_expired = until is not None and until < now
        events.append(Event(f"leased, delivery {deliveries}", None, message.holder, "held by"))
        label = "lease expired; a broker returns the message to its queue" if has_expired else "lease ends"
        events.append(Event(label, until, is_future=True))
    elif message.deliveries:
        events.append(Event(f"delivered {deliveries} times, returned each time"))
    if message.state == "delayed":
        events.append(Event("delayed; becomes ready", message.due_at, is_future=True))
    elif message.state == "ready":
        events.append(Event("ready now", None, message.receiver, "waiting for"))
    elif message.state == "dead":
        events.append(Event("dead; delivered too often", message.died_at))
    if message.expires_at is not None:
        events.append(Event("expires", message.expires_at, is_future=message.expires_at > now))
    return events


async def find_message(site: TheSite, name: str, number: int) -> MessageDetails | None:
    """A message, or None if the queue does not hold it."""
    return await site.console.message(name, number) if number < BIGINT else None


def not_found_page(request: Request, name: str, number: int) -> Response:
    """The page for a message that the queue does not hold."""
    detail = f"queue {name} has no message {number}; it may have been received, expired or deleted"
    values = {"queue": name, "base": queue_url(name), "detail": detail}
    return page(request, "message_not_found.html", values, status=404)


@router.get("/queues/{name:name}/messages/{number:int}")
async def message(
    request: Request,
    site: TheSite,
    _operator: Viewer,
    name: str,
    number: int,
    view: Format | None = None,
    start: Annotated[int, Query(alias="from", ge=0, lt=BIGINT)] = 0,
) -> Response:
    """A message as text, JSON or hexadecimal."""
    queue = await site.console.queue(name)
    details = await find_message(site, name, number)
    if details is None:
        return not_found_page(request, name, number)
    format_ = view or detect_format(details.body)
    part = render_body(details.body, format_, start)
    message_url = f"{queue_url(name)}/messages/{number}"
    values = {
        "queue": queue,
        "base": queue_url(name),
        "message_url": message_url,
        "message": details,
        "history": history_of(details, queue, datetime.now(UTC)),
        "format": format_,
        "formats": {each: build_url(message_url, view=each) for each in ("text", "json", "hex")},
        "part": part,
        "first": build_url(message_url, view=format_) if part.start else None,
        "next": build_url(message_url, view=format_, **{"from": part.end}) if 0 < part.end < details.size else None,
    }
    return page(request, "message.html", values)


@router.get("/queues/{name:name}/messages/{number:int}/body")
async def body(request: Request, site: TheSite, _operator: Viewer, name: str, number: int) -> Response:
    """The body as a download, which no browser takes for a page."""
    details = await find_message(site, name, number)
    if details is None:
        return not_found_page(request, name, number)
    headers = {"Content-Disposition": f'attachment; filename="message-{number}.bin"'}
    return Response(details.body, media_type="application/octet-stream", headers=headers)
