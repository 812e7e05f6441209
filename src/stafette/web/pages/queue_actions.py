"""What an administrator does with queues. Actions that cannot be undone ask for confirmation on their own page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from stafette.database.audit import Actor
from stafette.database.console import Console
from stafette.database.views import QueueDetails
from stafette.errors import CallerError, StafetteError, Unavailable
from stafette.model import DEFAULT_PRIORITY
from stafette.web import fields
from stafette.web.access import Administrator, TheSite
from stafette.web.pages.queues import HIGHEST, LOWEST, queue_url
from stafette.web.problems import status_of
from stafette.web.rendering import page, plural, redirect

router = APIRouter()


def _dead(count: int) -> str:
    return plural(count, "dead message")


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


# Creating a queue, and sending to one: forms that keep what was typed when they are refused


@router.get("/queues/-/new")
async def new(request: Request, _operator: Administrator) -> Response:
    """The form for a new queue."""
    return page(request, "queue_new.html", {"form": {}, "problem": None})


@router.post("/queues/-/new")
async def create(request: Request, site: TheSite, operator: Administrator) -> Response:
    """Create a queue."""
    form = await request.form()
    name = str(form.get("name", ""))
    try:
        queue = await site.console.create_queue(operator, name, fields.queue_options(form))
    except CallerError as error:
        return page(request, "queue_new.html", {"form": form, "problem": str(error)}, status=status_of(error))
    return redirect(queue_url(queue.name), f"queue {queue.name} was created")


def send_page(request: Request, queue: QueueDetails, form: Any, error: StafetteError | None = None) -> Response:
    """The form for a message."""
    values = {
        "queue": queue, "base": queue_url(queue.name), "form": form, "problem": None if error is None else str(error),
        "priorities": range(HIGHEST, LOWEST - 1, -1), "default_priority": DEFAULT_PRIORITY,
    }  # fmt: skip
    return page(request, "send.html", values, status=200 if error is None else status_of(error))


@router.get("/queues/{name:name}/send")
async def send_form(request: Request, site: TheSite, _operator: Administrator, name: str) -> Response:
    """The empty form; the query string may bring values, such as a receiver."""
    return send_page(request, await site.console.queue(name), request.query_params)


@router.post("/queues/{name:name}/send")
async def send(request: Request, site: TheSite, operator: Administrator, name: str) -> Response:
    """Send the message through a broker."""
    queue, form = await site.console.queue(name), await request.form()
    try:
        client = await site.link.client()
        (message_id,) = await client.send(
            name,
            fields.body(form, "body", str(form.get("kind", "text"))),
            priority=fields.integer(form, "priority", LOWEST, HIGHEST) or DEFAULT_PRIORITY,
            receiver=fields.text(form, "receiver"),
            context=fields.integer(form, "context"),
            headers=fields.headers(form, "headers"),
            delay=fields.seconds(form, "delay"),
            ttl=fields.seconds(form, "ttl"),
        )
    except StafetteError as error:
        if isinstance(error, Unavailable):
            await site.link.close()
        return send_page(request, queue, form, error)
    await site.console.audit.record(operator, "send", name, f"message {message_id}")
    return redirect(queue_url(name), f"message {message_id} was sent to {name}")


# Actions that ask for confirmation


@dataclass(frozen=True)
class Action:
    """An action on a whole queue."""

    title: str
    question: Callable[[QueueDetails], str]
    button: str
    execute: Callable[[Console, Actor, QueueDetails, bool], Awaitable[int | None]]
    """The last argument is whether the condition was confirmed. Returns the number of messages, if there is one."""
    report: Callable[[str, int], str]
    """The notice afterwards, given the queue's name and the number of messages."""
    condition: Callable[[QueueDetails], str | None] = lambda queue: None
    """What must be confirmed with a check box, if anything."""
    keeps_queue: bool = True
    """Whether the queue exists afterwards."""


def _message_count(queue: QueueDetails) -> int:
    return queue.ready + queue.delayed + queue.leased + queue.dead


ACTIONS = {
    "purge": Action(
        "Purge",
        lambda queue: (
            f"{plural(queue.ready, 'ready message')} and {plural(queue.delayed, 'delayed message')} will be deleted"
            " permanently, whoever they are for. Leased and dead messages stay."
        ),
        "Purge the queue",
        lambda console, actor, queue, _confirmed: console.purge(actor, queue.name),
        lambda name, count: f"{plural(count, 'message')} {_were(count)} deleted from {name}",
    ),
    "delete": Action(
        "Delete",
        lambda queue: f"The queue holds {plural(_message_count(queue), 'message')}. It will be deleted permanently.",
        "Delete the queue",
        lambda console, actor, queue, confirmed: console.delete_queue(actor, queue.name, force=confirmed),
        lambda name, _count: f"queue {name} was deleted",
        lambda queue: "Also delete its messages" if _message_count(queue) else None,
        keeps_queue=False,
    ),
    "redrive": Action(
        "Redrive dead messages of",
        lambda queue: f"{_dead(queue.dead)} will be ready again.",
        "Redrive dead messages",
        lambda console, actor, queue, _confirmed: console.redrive(actor, queue.name),
        lambda name, count: f"{_dead(count)} of {name} {_were(count)} redriven",
    ),
    "delete-dead": Action(
        "Delete dead messages of",
        lambda queue: f"{_dead(queue.dead)} will be deleted permanently.",
        "Delete dead messages",
        lambda console, actor, queue, _confirmed: console.delete_dead(actor, queue.name),
        lambda name, count: f"{_dead(count)} of {name} {_were(count)} deleted",
    ),
}


def _confirm_page(request: Request, queue: QueueDetails, kind: str, error: StafetteError | None = None) -> Response:
    action = ACTIONS[kind]
    values = {
        "title": f"{action.title} {queue.name}?",
        "question": action.question(queue),
        "condition": action.condition(queue),
        "button": action.button,
        "dangerous": kind != "redrive",
        "crumbs": [("/queues", "Queues"), (queue_url(queue.name), queue.name)],
        "back": queue_url(queue.name),
        "problem": None if error is None else str(error),
    }
    return page(request, "confirm.html", values, status=200 if error is None else status_of(error))


def _add_routes(kind: str, action: Action) -> None:
    @router.get(f"/queues/{{name:name}}/{kind}")
    async def confirm(request: Request, site: TheSite, _operator: Administrator, name: str) -> Response:
        return _confirm_page(request, await site.console.queue(name), kind)

    @router.post(f"/queues/{{name:name}}/{kind}")
    async def execute(request: Request, site: TheSite, operator: Administrator, name: str) -> Response:
        queue, confirmed = await site.console.queue(name), bool((await request.form()).get("sure"))
        try:
            count = await action.execute(site.console, operator, queue, confirmed)
        except CallerError as error:
            return _confirm_page(request, queue, kind, error)
        return redirect(queue_url(name) if action.keeps_queue else "/queues", action.report(name, count or 0))


for _kind, _action in ACTIONS.items():
    _add_routes(_kind, _action)
