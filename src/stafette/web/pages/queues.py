"""Queues: the list, and one queue with its messages. Viewing neither locks nor removes a message."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from stafette.database.views import MessageFilter, MessagePage, MessageState, QueueOrder
from stafette.errors import InvalidRequest
from stafette.web import fields
from stafette.web.access import TheSite, Viewer
from stafette.web.fields import build_url
from stafette.web.naming import path_segment
from stafette.web.rendering import page

router = APIRouter()

STATES: tuple[MessageState, ...] = ("ready", "delayed", "leased", "dead")
ORDERS: dict[QueueOrder, str] = {"name": "name", "ready": "most ready", "oldest": "oldest message"}
PERSONAL = {"": "all queues", "no": "without personal queues", "yes": "personal queues only"}
FILTERS = ("sender", "receiver", "nobody", "context", "priority", "older", "newer", "text")
LOWEST, HIGHEST = 1, 10
EMPTY_PAGE = MessagePage(messages=[], next=None, looked_at=0)
HISTORY_SECONDS = 86400


def queue_url(queue: str) -> str:
    """The URL of a queue's page."""
    return f"/queues/{path_segment(queue)}"


@router.get("/queues")
async def queues(
    request: Request,
    site: TheSite,
    _operator: Viewer,
    text: str = "",
    order: QueueOrder = "name",
    personal: Annotated[str, Query(pattern="^(yes|no|)$")] = "",
    after: str | None = None,
) -> Response:
    """A page of the list."""
    only = {"yes": True, "no": False}.get(personal)
    rows, next_after = await site.console.queues(text=text, order=order, personal=only, after=after or None)
    query = {"text": text, "order": "" if order == "name" else order, "personal": personal}
    values = {
        "queues": rows,
        "counts": await site.console.message_counts(),
        "text": text,
        "order": order,
        "orders": ORDERS,
        "personal": personal,
        "personals": PERSONAL,
        "first": build_url("/queues", **query) if after else None,
        "next": build_url("/queues", **query, after=next_after) if next_after else None,
    }
    return page(request, "queues.html", values)


def parse_filter(query: Any) -> MessageFilter:
    """The filter in a query string."""
    return MessageFilter(
        sender=fields.text(query, "sender"),
        receiver="" if query.get("nobody") else fields.text(query, "receiver"),
        context=fields.integer(query, "context"),
        priority=fields.integer(query, "priority", LOWEST, HIGHEST),
        older_than=fields.seconds(query, "older"),
        newer_than=fields.seconds(query, "newer"),
        text=fields.text(query, "text"),
    )


@router.get("/queues/{name:name}")
async def queue(
    request: Request,
    site: TheSite,
    _operator: Viewer,
    name: str,
    state: MessageState = "ready",
    after: str | None = None,
) -> Response:
    """One queue: counts, settings, senders and receivers, and a page of its messages."""
    details = await site.console.queue(name)
    filter_ = {field: request.query_params.get(field, "") for field in FILTERS}
    problem, messages = None, EMPTY_PAGE
    try:
        where = parse_filter(filter_)
        messages = await site.console.messages(name, state=state, where=where, after=after or None)
    except InvalidRequest as error:
        problem = str(error)
    base, query = queue_url(name), {"state": "" if state == "ready" else state, **filter_}
    values = {
        "queue": details,
        "base": base,
        "state": state,
        "states": {each: build_url(base, **{**query, "state": "" if each == "ready" else each}) for each in STATES},
        "filter": filter_,
        "is_filtered": any(filter_.values()),
        "problem": problem,
        "messages": messages,
        "unfiltered": build_url(base, state=query["state"]),
        "first": build_url(base, **query) if after else None,
        "next": build_url(base, **query, after=messages.next) if messages.next else None,
    }
    return page(request, "queue.html", values, status=200 if problem is None else 400)


@router.get("/queues/{name:name}/depth")
async def depth(name: str, site: TheSite, _operator: Viewer) -> dict[str, Any]:
    """The ready messages of a queue over time, for the script that draws them; the last point is the current count."""
    details = await site.console.queue(name)
    now = datetime.now(UTC)
    since = now - timedelta(seconds=HISTORY_SECONDS)
    history = await site.console.queue_history(name, since=since)
    return {
        "unit": "messages",
        "from": since.isoformat(),
        "to": now.isoformat(),
        "at": [point.at.isoformat() for point in history] + [details.counted_at.isoformat()],
        "lines": [{"name": "ready", "values": [point.messages for point in history] + [details.ready]}],
    }
