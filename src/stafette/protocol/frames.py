"""Frames: how a stream of bytes is cut into messages.

::

    0        4                4 + length
    ┌────────┬────────────────┐
    │ length │ MessagePack    │   length: unsigned, big-endian, of the MessagePack part alone
    └────────┴────────────────┘

The length is checked against the limit as soon as its four bytes are there, before anything is kept for it.
"""

from __future__ import annotations

from collections.abc import Iterator

HEADER_BYTES = 4


class FrameTooLarge(Exception):
    """A frame announces more bytes than the limit allows; the stream cannot be read on."""

    def __init__(self, length: int, limit: int) -> None:
        super().__init__(length, limit)
        self.length = length
        self.limit = limit

    def __str__(self) -> str:
        return f"a frame of {self.length} bytes exceeds the limit of {self.limit}"


def frame(payload: bytes) -> bytes:
    """Put the length before a payload."""
    return len(payload).to_bytes(HEADER_BYTES, "big") + payload


class FrameReader:
    """Cuts what arrives, in pieces of any size, into payloads.

    Nearly always a piece is one or several whole frames, and nothing is kept. The beginning of a frame is kept until
    its end is there, each byte copied once.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._kept = bytearray()
        self._needed = HEADER_BYTES

    @property
    def partial(self) -> bool:
        """Whether the beginning of a frame is there whose end is not."""
        return bool(self._kept)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Take in bytes, give out the payloads that are complete; those before a frame that is too large come first."""
        if self._kept:
            self._kept += data
            if len(self._kept) < self._needed:
                return
            data = bytes(self._kept)
            self._kept.clear()
        at, end = 0, len(data)
        needed = HEADER_BYTES
        while end - at >= HEADER_BYTES:
            length = int.from_bytes(data[at : at + HEADER_BYTES], "big")
            if length > self.limit:
                raise FrameTooLarge(length, self.limit)
            needed = HEADER_BYTES + length
            if at + needed > end:
                break
            yield data[at + HEADER_BYTES : at + needed]
            at += needed
            needed = HEADER_BYTES
        if at < end:
            self._kept += data[at:]
            self._needed = needed
