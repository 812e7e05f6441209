"""Answers of the API: structs as JSON, and their schemas for its description."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.responses import Response

from stafette.database.audit import AuditLine
from stafette.database.views import (
    BrokerRow,
    ClientRow,
    HistoryPoint,
    MessageDetails,
    MessageRow,
    MessageState,
    QueueRow,
)
from stafette.model import Headers, Message, text_or_base64

REFERENCE = "#/components/schemas/{name}"


class ApiMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message; its body as text, or, where it is none, as base64."""

    id: int
    queue: str
    state: MessageState | None
    """None once it has been received."""
    sender: str
    receiver: str | None
    context: int | None
    priority: int
    arrived_at: datetime
    deliveries: int
    headers: Headers | None
    body: str | None
    body_base64: str | None


class ApiMessageRow(msgspec.Struct, frozen=True, kw_only=True):
    """A message in a list."""

    id: int
    queue: str
    state: MessageState
    sender: str
    receiver: str | None
    context: int | None
    priority: int
    arrived_at: datetime
    deliveries: int
    headers: Headers | None
    size: int
    preview: str
    """The first 120 bytes of the body; what is not text is replaced."""


class QueuePage(msgspec.Struct, frozen=True):
    """Some queues, and the `after` of the next page."""

    items: list[QueueRow]
    next: str | None


class ClientPage(msgspec.Struct, frozen=True):
    """Some clients, and the `after` of the next page."""

    items: list[ClientRow]
    next: str | None


class ApiMessagePage(msgspec.Struct, frozen=True):
    """Some messages, and the `after` of the next page; also a page without any may have a next one."""

    items: list[ApiMessageRow]
    next: str | None
    looked_at: int


class Messages(msgspec.Struct, frozen=True):
    """Messages that were received."""

    messages: list[ApiMessage]


class Found(msgspec.Struct, frozen=True):
    """What a search came up with."""

    queues: list[str]
    clients: list[str]
    messages: list[ApiMessageRow]


class Sent(msgspec.Struct, frozen=True):
    """The id that a message has."""

    ids: list[int]


class Count(msgspec.Struct, frozen=True):
    """How many messages were concerned."""

    messages: int


class Told(msgspec.Struct, frozen=True):
    """Whether there was anybody to tell."""

    told: bool


class Problem(msgspec.Struct, frozen=True):
    """What went wrong: the name and the number of the error, and a sentence that says what to do."""

    error: str
    code: int | None
    message: str


class Points(msgspec.Struct, frozen=True):
    """What happened over time."""

    items: list[HistoryPoint]


class Brokers(msgspec.Struct, frozen=True):
    """All brokers."""

    items: list[BrokerRow]


class Audit(msgspec.Struct, frozen=True):
    """What operators did, the newest first."""

    items: list[AuditLine]


def whole(message: Message | MessageDetails, state: MessageState | None = None) -> ApiMessage:
    """A message with its body."""
    text, coded = text_or_base64(message.body)
    return ApiMessage(
        id=message.id, queue=message.queue, state=state, sender=message.sender, receiver=message.receiver,
        context=message.context, priority=message.priority, arrived_at=message.arrived_at,
        deliveries=message.deliveries, headers=message.headers, body=text, body_base64=coded,
    )  # fmt: skip


def row(message: MessageRow) -> ApiMessageRow:
    """A message in a list."""
    return ApiMessageRow(
        id=message.id, queue=message.queue, state=message.state, sender=message.sender, receiver=message.receiver,
        context=message.context, priority=message.priority, arrived_at=message.arrived_at,
        deliveries=message.deliveries, headers=message.headers, size=message.size,
        preview=message.preview.decode(errors="replace"),
    )  # fmt: skip


# As JSON, and as schemas

_described: dict[str, type] = {}


def answered(value: object, status: int = 200) -> Response:
    """A struct, or a list of them, as an answer."""
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def describes(kind: Any, *refusals: int, status: int = 200) -> dict[int | str, dict[str, Any]]:
    """What a route may answer, for the API's description."""
    _described[kind.__name__] = kind
    found: dict[int | str, dict[str, Any]] = {status: {"description": kind.__doc__, "content": _content(kind)}}
    for refusal in sorted({400, 401, 403, 422, 429, 503, *refusals}):
        found[refusal] = {"description": "Refused; the sentence says why.", "content": _content(Problem)}
    return found


def nothing(*refusals: int) -> dict[int | str, dict[str, Any]]:
    """The same for a route that has nothing to say but that it was done."""
    found = describes(Problem, *refusals)
    del found[200]
    return {204: {"description": "Done."}, **found}


def _content(kind: type) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": REFERENCE.format(name=kind.__name__)}}}


def described(app: FastAPI) -> dict[str, Any]:
    """The API's description, with the schemas of our structs."""
    if not app.openapi_schema:
        found = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        _, schemas = msgspec.json.schema_components([*_described.values(), Problem], ref_template=REFERENCE)
        parts = found.setdefault("components", {}).setdefault("schemas", {})
        for unused in ("HTTPValidationError", "ValidationError"):  # refusals look like all other problems
            parts.pop(unused, None)
        parts.update(schemas)
        app.openapi_schema = found
    return app.openapi_schema


def operations(description: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """All operations of a description: path, method, and what is said of it."""
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            yield path, method.upper(), operation
