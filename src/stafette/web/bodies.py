"""Bodies of requests: how large they may be, and how much memory they may take together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from starlette.exceptions import HTTPException
from starlette.types import Message, Receive

from stafette.broker.limits import KIBIBYTE, MEBIBYTE, Limits
from stafette.errors import Overloaded

LOGIN_BYTES = 16 * KIBIBYTE
"""A secret, and the page to return to; whoever sends it has not logged in."""

BODY_BYTES = Limits().frame * 4 // 3 + 64 * KIBIBYTE
"""The largest message that a broker takes, in base64, with its headers. Text with many escapes is better sent so."""

IMPORT_BYTES = 1024 * MEBIBYTE
"""A series to import. It goes to disk as it comes, and only from an administrator."""

BYTES_IN_FLIGHT = 64 * MEBIBYTE
"""Bodies of all requests that are not answered. Decoded, a body takes several times as much."""


def too_large(limit: int) -> HTTPException:
    """The answer to a body beyond its limit."""
    return HTTPException(413, f"the request has more than {limit:,} bytes, the limit at this URL; send less at once")


class BodyBudget:
    """The memory for bodies: each takes what it announces before it is read, and frees it with the answer."""

    def __init__(self, most: int = BYTES_IN_FLIGHT) -> None:
        self._left = most

    @contextmanager
    def reserve(self, size: int) -> Iterator[None]:
        """Take so many bytes, or raise Overloaded."""
        if size > self._left:
            raise Overloaded("too many large requests at once; send it again in a moment")
        self._left -= size
        try:
            yield
        finally:
            self._left += size


def limited(receive: Receive, limit: int) -> Receive:
    """`receive`, up to a number of bytes: a body that comes in chunks announces no size."""
    received = 0

    async def receive_within_limit() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > limit:
            raise too_large(limit)
        return message

    return receive_within_limit
