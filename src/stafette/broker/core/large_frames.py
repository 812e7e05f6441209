"""Large frames: how much memory frames may take of which only a part has arrived.

A frame beyond LARGE_FRAME is read on only when all of it has room among the others; until then its client is not read
from. First come, first served; small frames do not wait.
"""

from __future__ import annotations

from stafette.broker.core.session import Session
from stafette.broker.limits import LARGE_FRAME


class LargeFrames:
    """The large frames that are arriving, and those that wait for room."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._arriving: dict[Session, int] = {}
        self._waiting: dict[Session, int] = {}
        self.bytes = 0
        """Of the frames that are arriving."""

    def __contains__(self, session: Session) -> bool:
        """Whether a session waits for room."""
        return session in self._waiting

    def begin(self, session: Session, size: int) -> bool:
        """A frame of this size has begun to arrive, or goes on; False if its client has to wait until there is room."""
        if size <= LARGE_FRAME or session in self._arriving:
            return True
        if not self._waiting and self._has_room(size):
            self._admit(session, size)
            return True
        self._waiting[session] = size
        return False

    def end(self, session: Session) -> list[Session]:
        """A session has no frame any more that is arriving; returns those that may go on with theirs."""
        self._waiting.pop(session, None)
        self.bytes -= self._arriving.pop(session, 0)
        admitted = []
        for other, size in list(self._waiting.items()):
            if not self._has_room(size):
                break
            del self._waiting[other]
            self._admit(other, size)
            admitted.append(other)
        return admitted

    def _has_room(self, size: int) -> bool:
        return not self.bytes or self.bytes + size <= self._limit

    def _admit(self, session: Session, size: int) -> None:
        self._arriving[session] = size
        self.bytes += size
