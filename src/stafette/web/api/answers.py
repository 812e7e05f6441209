"""Answers of the API: structs as JSON, and their schemas for the OpenAPI description."""

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
    """A message; its body as text, or as base64 if it is not text."""

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
    """The first 120 bytes of the body; bytes that are not text are replaced."""


class QueuePage(msgspec.Struct, frozen=True):
    """A page of queues; `next` is the `after` of the next page."""

    items: list[QueueRow]
    next: str | None


class ClientPage(msgspec.Struct, frozen=True):
    """A page of clients; `next` is the `after` of the next page."""

    items: list[ClientRow]
    next: str | None


class ApiMessagePage(msgspec.Struct, frozen=True):
    """A page of messages; `next` is the `after` of the next page, which an empty page may have, too."""

    items: list[ApiMessageRow]
    next: str | None
    looked_at: int


class Messages(msgspec.Struct, frozen=True):
    """Messages that were received."""

    messages: list[ApiMessage]


class Found(msgspec.Struct, frozen=True):
    """The results of a search."""

    queues: list[str]
    clients: list[str]
    messages: list[ApiMessageRow]


class Sent(msgspec.Struct, frozen=True):
    """The ids of the messages that were stored."""

    ids: list[int]


class Count(msgspec.Struct, frozen=True):
    """The number of messages that were changed."""

    messages: int


class Told(msgspec.Struct, frozen=True):
    """Whether the client was online, so that its broker was told to disconnect it."""

    told: bool


class Problem(msgspec.Struct, frozen=True):
    """An error: its name, its number, and a message that says what to do."""

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
    """Changes by operators, the newest first."""

    items: list[AuditLine]


def full_message(message: Message | MessageDetails, state: MessageState | None = None) -> ApiMessage:
    """A message with its body."""
    text, encoded = text_or_base64(message.body)
    return ApiMessage(
        id=message.id, queue=message.queue, state=state, sender=message.sender, receiver=message.receiver,
        context=message.context, priority=message.priority, arrived_at=message.arrived_at,
        deliveries=message.deliveries, headers=message.headers, body=text, body_base64=encoded,
    )  # fmt: skip


def message_row(message: MessageRow) -> ApiMessageRow:
    """A message in a list."""
    return ApiMessageRow(
        id=message.id, queue=message.queue, state=message.state, sender=message.sender, receiver=message.receiver,
        context=message.context, priority=message.priority, arrived_at=message.arrived_at,
        deliveries=message.deliveries, headers=message.headers, size=message.size,
        preview=message.preview.decode(errors="replace"),
    )  # fmt: skip


# As JSON, and as schemas

_answer_types: dict[str, type] = {}


def json_answer(value: object, status: int = 200) -> Response:
    """A struct, or a list of them, as JSON."""
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def describes(kind: Any, *refusals: int, status: int = 200) -> dict[int | str, dict[str, Any]]:
    """The answers of a route, for the OpenAPI description."""
    _answer_types[kind.__name__] = kind
    answers: dict[int | str, dict[str, Any]] = {status: {"description": kind.__doc__, "content": _content(kind)}}
    for refusal in sorted({400, 401, 403, 422, 429, 503, *refusals}):
        answers[refusal] = {"description": "Refused; `message` says why.", "content": _content(Problem)}
    return answers


def no_content(*refusals: int) -> dict[int | str, dict[str, Any]]:
    """The answers of a route that returns nothing."""
    answers = describes(Problem, *refusals)
    del answers[200]
    return {204: {"description": "Done."}, **answers}


def _content(kind: type) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": REFERENCE.format(name=kind.__name__)}}}


def describe(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI description, with the schemas of our structs."""
    if not app.openapi_schema:
        description = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        _, schemas = msgspec.json.schema_components([*_answer_types.values(), Problem], ref_template=REFERENCE)
        components = description.setdefault("components", {}).setdefault("schemas", {})
        for unused in ("HTTPValidationError", "ValidationError"):  # ours are answered as Problem
            components.pop(unused, None)
        components.update(schemas)
        app.openapi_schema = description
    return app.openapi_schema


def operations(description: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """All operations of an OpenAPI description: path, method and operation object."""
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            yield path, method.upper(), operation
