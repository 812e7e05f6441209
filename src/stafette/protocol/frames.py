"""Frames: how a stream of bytes is cut into messages.

::

    0        4                4 + length
    ┌────────┬────────────────┐
    │ length │ MessagePack    │   length: unsigned, big-endian, of the MessagePack part alone
    └────────┴────────────────┘

The length is checked against the limit as soon as its four bytes have arrived, before memory is used for the frame.
"""

from __future__ import annotations

from collections.abc import Generator

HEADER_BYTES = 4


class FrameTooLarge(Exception):
    """A frame announces more bytes than the limit allows; the stream cannot be read any further."""

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
    """Cuts data, which arrives in pieces of any size, into payloads.

    Nearly always a piece is one or several complete frames, and nothing is buffered. The beginning of a frame is
    buffered until its end has arrived; each byte is copied once. What follows the payload at which a reader closes the
    iterator is buffered, too, and comes with the next piece.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._partial_frame = bytearray()
        self._needed = HEADER_BYTES

    @property
    def partial(self) -> bool:
        """Whether a frame has arrived only in part."""
        return bool(self._partial_frame)

    @property
    def begun(self) -> int:
        """Bytes of the frame that has arrived in part; 0 if there is none."""
        return self._needed if self._partial_frame else 0

    def feed(self, data: bytes | memoryview) -> Generator[bytes | memoryview]:
        """Add bytes; yields the payloads of complete frames, also those before one that is too large."""
        if self._partial_frame:
            self._partial_frame += data
            if len(self._partial_frame) < self._needed:
                return
            data = memoryview(self._partial_frame)  # a large frame is not copied again
            self._partial_frame = bytearray()
        position, end = 0, len(data)
        needed = HEADER_BYTES
        try:
            while end - position >= HEADER_BYTES:
                length = int.from_bytes(data[position : position + HEADER_BYTES], "big")
                if length > self.limit:
                    position = end  # nothing is kept of a stream that cannot be read
                    raise FrameTooLarge(length, self.limit)
                needed = HEADER_BYTES + length
                if position + needed > end:
                    break
                start, position = position + HEADER_BYTES, position + needed
                needed = HEADER_BYTES
                yield data[start:position]
        finally:
            if position < end:
                self._partial_frame += data[position:]
                self._needed = needed
