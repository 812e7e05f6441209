"""What an administrator does with queues. What cannot be taken back is asked about on a page of its own first."""

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
from stafette.web.pages.queues import HIGHEST, LOWEST, home
from stafette.web.problems import status_of
from stafette.web.rendering import done, number, page

router = APIRouter()


def counted(count: int) -> str:
    """So many messages, in words."""
    return "1 message" if count == 1 else f"{number(count)} messages"


def were(count: int) -> str:
    """So many messages, and the verb after them."""
    return f"{counted(count)} {'was' if count == 1 else 'were'}"


# Making a queue, and sending to one: a form that keeps what was typed when something is wrong with it


@router.get("/queues/-/new")
async def new(request: Request, _who: Administrator) -> Response:
    """The form for a new queue."""
    return page(request, "queue_new.html", {"form": {}, "wrong": None})


@router.post("/queues/-/new")
async def create(request: Request, site: TheSite, who: Administrator) -> Response:
    """Make a queue."""
    form = await request.form()
    name = str(form.get("name", ""))
    try:
        queue = await site.console.create_queue(who, name, fields.queue_options(form))
    except CallerError as error:
        return page(request, "queue_new.html", {"form": form, "wrong": str(error)}, status=status_of(error))
    return done(home(queue.name), f"queue {queue.name} was created")


def send_page(request: Request, queue: QueueDetails, form: Any, wrong: StafetteError | None = None) -> Response:
    """The form for a message."""
    values = {
        "queue": queue, "base": home(queue.name), "form": form, "wrong": None if wrong is None else str(wrong),
        "priorities": range(HIGHEST, LOWEST - 1, -1), "usual": DEFAULT_PRIORITY,
    }  # fmt: skip
    return page(request, "send.html", values, status=200 if wrong is None else status_of(wrong))


@router.get("/queues/{name:name}/send")
async def write(request: Request, site: TheSite, _who: Administrator, name: str) -> Response:
    """The empty form; a receiver or context may come with the address."""
    return send_page(request, await site.console.queue(name), request.query_params)


@router.post("/queues/{name:name}/send")
async def send(request: Request, site: TheSite, who: Administrator, name: str) -> Response:
    """Send it, as a client like all others."""
    queue, form = await site.console.queue(name), await request.form()
    try:
        client = await site.link.client()
        (sent,) = await client.send(
            name,
            fields.body(form, "body", str(form.get("kind", "text"))),
            priority=fields.whole(form, "priority", LOWEST, HIGHEST) or DEFAULT_PRIORITY,
            receiver=fields.text(form, "receiver"),
            context=fields.whole(form, "context"),
            headers=fields.headers(form, "headers"),
            delay=fields.seconds(form, "delay"),
            ttl=fields.seconds(form, "ttl"),
        )
    except StafetteError as error:
        if isinstance(error, Unavailable):
            await site.link.forget()
        return send_page(request, queue, form, error)
    await site.console.audit.record(who, "send", name, f"message {sent}")
    return done(home(name), f"message {sent} was sent to {name}")


# What is asked about first


@dataclass(frozen=True)
class Action:
    """Something that is done to a whole queue."""

    title: str
    question: Callable[[QueueDetails], str]
    button: str
    act: Callable[[Console, Actor, QueueDetails, bool], Awaitable[int | None]]
    """Does it; the last argument is whether all doubts were confirmed. Returns how many messages it was, if any."""
    report: Callable[[str, int], str]
    """What was done, given the queue's name and the number of messages."""
    doubt: Callable[[QueueDetails], str | None] = lambda queue: None
    """What has to be confirmed besides, if anything."""
    stays: bool = True
    """Whether there is a queue afterwards."""


def _held(queue: QueueDetails) -> int:
    return queue.ready + queue.delayed + queue.leased + queue.dead


ACTIONS = {
    "purge": Action(
        "Empty",
        lambda queue: (
            f"All that is ready ({number(queue.ready)}) or delayed ({number(queue.delayed)}) is removed for good."
            " What is leased stays with its holder, and the dead stay."
        ),
        "Empty the queue",
        lambda console, actor, queue, _sure: console.purge(actor, queue.name),
        lambda name, count: f"{were(count)} removed from {name}",
    ),
    "delete": Action(
        "Delete",
        lambda queue: f"The queue is deleted. It holds {counted(_held(queue))}.",
        "Delete the queue",
        lambda console, actor, queue, sure: console.delete_queue(actor, queue.name, force=sure),
        lambda name, _count: f"queue {name} was deleted",
        lambda queue: "Delete it together with its messages" if _held(queue) else None,
        stays=False,
    ),
    "redrive": Action(
        "Redrive the dead of",
        lambda queue: f"{counted(queue.dead)} that died, after too many deliveries, can be received again.",
        "Redrive them",
        lambda console, actor, queue, _sure: console.redrive(actor, queue.name),
        lambda name, count: f"{were(count)} put back into {name}",
    ),
    "bury": Action(
        "Bury the dead of",
        lambda queue: f"{counted(queue.dead)} that died, after too many deliveries, are removed for good.",
        "Bury them",
        lambda console, actor, queue, _sure: console.delete_dead(actor, queue.name),
        lambda name, count: f"{counted(count)} of {name} that had died are gone for good",
    ),
}


def _ask_page(request: Request, queue: QueueDetails, kind: str, wrong: StafetteError | None = None) -> Response:
    action = ACTIONS[kind]
    values = {
        "title": f"{action.title} {queue.name}?",
        "question": action.question(queue),
        "doubt": action.doubt(queue),
        "button": action.button,
        "dangerous": kind != "redrive",
        "crumbs": [("/queues", "Queues"), (home(queue.name), queue.name)],
        "back": home(queue.name),
        "wrong": None if wrong is None else str(wrong),
    }
    return page(request, "confirm.html", values, status=200 if wrong is None else status_of(wrong))


def _add(kind: str) -> None:
    @router.get(f"/queues/{{name:name}}/{kind}")
    async def ask(request: Request, site: TheSite, _who: Administrator, name: str) -> Response:
        return _ask_page(request, await site.console.queue(name), kind)

    @router.post(f"/queues/{{name:name}}/{kind}")
    async def act(request: Request, site: TheSite, who: Administrator, name: str) -> Response:
        queue, sure = await site.console.queue(name), bool((await request.form()).get("sure"))
        try:
            count = await ACTIONS[kind].act(site.console, who, queue, sure)
        except CallerError as error:
            return _ask_page(request, queue, kind, error)
        return done(home(name) if ACTIONS[kind].stays else "/queues", ACTIONS[kind].report(name, count or 0))


for _kind in ACTIONS:
    _add(_kind)
