"""Values that no request may have although they can be decoded: what PostgreSQL cannot store, and times that are none.

They are found here, before the request shares a batch with others: a value that the database itself rejects ends the
call for the whole batch, which then has to be repeated in parts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stafette.protocol import messages as wire

NUL = "\0"
"""PostgreSQL stores any text but one with this character."""

TOKEN_BOUND = 2**63
"""Tokens of leases are stored as signed 64-bit integers."""


def invalid_value(request: wire.Request) -> str | None:
    """What is wrong with a value of a request, as a sentence; None: nothing."""
    check = _CHECKS.get(type(request))
    return check(request) if check is not None else None


def _hello(hello: wire.Hello) -> str | None:
    if NUL in hello.name:
        return _nul("name", hello.name)
    if hello.secret is not None and NUL in hello.secret:
        return "the secret contains a NUL character; leave it out"
    return None


def _send(send: wire.Send) -> str | None:
    if send.key is not None and NUL in send.key:
        return _nul("key", send.key)
    for draft in send.drafts:
        for queue in draft.queues:
            if NUL in queue:
                return _nul("queue", queue)
        if draft.receiver is not None and NUL in draft.receiver:
            return _nul("receiver", draft.receiver)
        if draft.headers:
            for name, value in draft.headers.items():
                if NUL in name or NUL in value:
                    return _nul("header", name if NUL in name else f"{name}: {value}")
    return None


def _read(read: wire.Receive | wire.Peek | wire.Lease) -> str | None:
    selection = read.selection
    if selection.queue is not None and NUL in selection.queue:
        return _nul("queue", selection.queue)
    if selection.sender is not None and NUL in selection.sender:
        return _nul("sender", selection.sender)
    return None


def _lease(lease: wire.Lease) -> str | None:
    return _seconds(lease.seconds) or _read(lease)


def _settle(request: wire.Ack | wire.Nack | wire.Extend) -> str | None:
    if not -TOKEN_BOUND <= request.token < TOKEN_BOUND:
        return f"{request.token} is not the token of a lease; take the token that came with the message"
    return None


def _extend(extend: wire.Extend) -> str | None:
    return _seconds(extend.seconds) or _settle(extend)


def _names(*fields: str) -> Callable[[Any], str | None]:
    """A check of the fields that hold names; a queue may also be given by its number."""

    def check(request: Any) -> str | None:
        for field in fields:
            value = getattr(request, field)
            if isinstance(value, str) and NUL in value:
                return _nul(field, value)
        return None

    return check


def _seconds(seconds: float) -> str | None:
    if seconds > 0:
        return None
    return f"seconds {seconds:g} is not positive; a lease lasts a positive number of seconds"


def _nul(field: str, text: str) -> str:
    return f"{field} {text[:100]!r} contains a NUL character; leave it out"


_CHECKS: dict[type, Callable[[Any], str | None]] = {
    wire.Hello: _hello,
    wire.Send: _send,
    wire.Receive: _read,
    wire.Peek: _read,
    wire.Lease: _lease,
    wire.Ack: _settle,
    wire.Nack: _settle,
    wire.Extend: _extend,
    wire.Browse: _names("queue"),
    wire.CreateQueue: _names("queue", "dead_letter"),
    wire.DeleteQueue: _names("queue"),
    wire.LookUpQueue: _names("queue"),
    wire.LookUpPersonalQueue: _names("client"),
    wire.Purge: _names("queue"),
    wire.LookUpClient: _names("client"),
    wire.DeleteClient: _names("client"),
}
