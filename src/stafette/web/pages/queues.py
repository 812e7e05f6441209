"""Queues: the list, and one queue with its messages. Looking never locks or removes anything."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from stafette.database.views import MessageFilter, MessagePage, MessageState, QueueOrder
from stafette.errors import InvalidRequest
from stafette.web import fields
from stafette.web.access import TheSite, Viewer
from stafette.web.fields import address
from stafette.web.naming import in_address
from stafette.web.rendering import page

router = APIRouter()

STATES: tuple[MessageState, ...] = ("ready", "delayed", "leased", "dead")
ORDERS: dict[QueueOrder, str] = {"name": "name", "ready": "most ready", "oldest": "oldest message"}
PERSONAL = {"": "all queues", "no": "without personal ones", "yes": "personal ones only"}
FILTERS = ("sender", "receiver", "nobody", "context", "priority", "older", "newer", "text")
LOWEST, HIGHEST = 1, 10
NOTHING = MessagePage(messages=[], next=None, looked_at=0)
HISTORY_SECONDS = 86400


def home(queue: str) -> str:
    """The address of a queue."""
    return f"/queues/{in_address(queue)}"


@router.get("/queues")
async def queues(
    request: Request,
    site: TheSite,
    _who: Viewer,
    text: str = "",
    order: QueueOrder = "name",
    personal: Annotated[str, Query(pattern="^(yes|no|)$")] = "",
    after: str | None = None,
) -> Response:
    """A page of the list."""
    only = {"yes": True, "no": False}.get(personal)
    found, following = await site.console.queues(text=text, order=order, personal=only, after=after or None)
    here = {"text": text, "order": "" if order == "name" else order, "personal": personal}
    values = {
        "queues": found,
        "stock": await site.console.stock(),
        "text": text,
        "order": order,
        "orders": ORDERS,
        "personal": personal,
        "personals": PERSONAL,
        "first": address("/queues", **here) if after else None,
        "next": address("/queues", **here, after=following) if following else None,
    }
    return page(request, "queues.html", values)


def asked_for(query: Any) -> MessageFilter:
    """The filter that an address asks for."""
    return MessageFilter(
        sender=fields.text(query, "sender"),
        receiver="" if query.get("nobody") else fields.text(query, "receiver"),
        context=fields.whole(query, "context"),
        priority=fields.whole(query, "priority", LOWEST, HIGHEST),
        older_than=fields.seconds(query, "older"),
        newer_than=fields.seconds(query, "newer"),
        text=fields.text(query, "text"),
    )


@router.get("/queues/{name:name}")
async def queue(
    request: Request, site: TheSite, _who: Viewer, name: str, state: MessageState = "ready", after: str | None = None
) -> Response:
    """One queue: figures, settings, who sends and receives, and a page of its messages."""
    details = await site.console.queue(name)
    said = {field: request.query_params.get(field, "") for field in FILTERS}
    wrong, found = None, NOTHING
    try:
        where = asked_for(said)
        found = await site.console.messages(name, state=state, where=where, after=after or None)
    except InvalidRequest as error:
        wrong = str(error)
    base, here = home(name), {"state": "" if state == "ready" else state, **said}
    values = {
        "queue": details,
        "base": base,
        "state": state,
        "states": {each: address(base, **{**here, "state": "" if each == "ready" else each}) for each in STATES},
        "filter": said,
        "filtered": any(said.values()),
        "wrong": wrong,
        "messages": found,
        "unfiltered": address(base, state=here["state"]),
        "first": address(base, **here) if after else None,
        "next": address(base, **here, after=found.next) if found.next else None,
    }
    return page(request, "queue.html", values, status=200 if wrong is None else 400)


@router.get("/queues/{name:name}/depth")
async def depth(name: str, site: TheSite, _who: Viewer) -> dict[str, Any]:
    """How long a queue was, for the script that draws it; the last point is of now."""
    details = await site.console.queue(name)
    now = datetime.now(UTC)
    since = now - timedelta(seconds=HISTORY_SECONDS)
    past = await site.console.queue_history(name, since=since)
    return {
        "unit": "messages",
        "from": since.isoformat(),
        "to": now.isoformat(),
        "at": [point.at.isoformat() for point in past] + [details.counted_at.isoformat()],
        "lines": [{"name": "ready", "values": [point.messages for point in past] + [details.ready]}],
    }
