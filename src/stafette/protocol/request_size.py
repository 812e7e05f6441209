"""What a request weighs in bytes, for both sides of a connection: the broker refuses and the client waits by it.

A message for several queues is stored in each of them, so its bytes count once for every queue. Besides its body and
headers each stored message has a fixed cost. Requests that carry no payload weigh nothing: their number is limited.
"""

from __future__ import annotations

from stafette.protocol.messages import Echo, Receive, Request, Send

STORED_MESSAGE = 1024
"""Bytes that a message costs beside its body and headers, in each queue."""

HEADER = 128
"""Bytes that a header costs beside its name and value."""

SEEN_ANSWER = 32
"""Bytes that the id of an answer costs that has been seen."""


def request_bytes(request: Request) -> int:
    """The bytes of a request, as limits count them."""
    kind = type(request)
    if kind is Send:
        size = 0
        for draft in request.drafts:  # type: ignore[union-attr]  # mypy does not narrow by type(…)
            stored = STORED_MESSAGE + len(draft.body)
            if headers := draft.headers:
                stored += sum(HEADER + len(name) + len(value) for name, value in headers.items())
            size += stored * len(draft.queues)
        return size + len(request.key) if request.key else size  # type: ignore[union-attr]
    if kind is Receive:
        return SEEN_ANSWER * len(request.seen)  # type: ignore[union-attr]
    return len(request.payload) if kind is Echo else 0  # type: ignore[union-attr]
