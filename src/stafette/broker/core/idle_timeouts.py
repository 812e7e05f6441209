"""Idle timeouts: who must say hello, finish a frame, read its answers or hang up, and until when."""

from __future__ import annotations

from stafette.broker.core.session import Session, State
from stafette.broker.limits import FAIR_READ, FRAME_SECONDS, HANG_UP_SECONDS, HELLO_SECONDS, READ_SECONDS


class IdleTimeouts:
    """The deadlines of those few sessions that have to do something."""

    def __init__(self) -> None:
        self._deadlines: dict[Session, float] = {}

    def __contains__(self, session: Session) -> bool:
        return session in self._deadlines

    def await_hello(self, session: Session, now: float) -> None:
        """A connection has to say hello."""
        self._deadlines[session] = now + HELLO_SECONDS

    def await_reading(self, session: Session, unread: int, now: float) -> None:
        """A client has to read its answers."""
        session.unread_before = unread
        self._deadlines[session] = now + READ_SECONDS

    def await_hang_up(self, session: Session, now: float) -> None:
        """A client has to read its last answers and hang up."""
        self._deadlines[session] = now + HANG_UP_SECONDS

    def caught_up(self, session: Session, now: float, *, partial: bool) -> None:
        """A client has read its answers. `partial`: whether it has begun a frame, which has to end."""
        if partial:
            self._deadlines[session] = now + FRAME_SECONDS
        else:
            self._done(session)

    def received(self, session: Session, now: float, *, partial: bool, whole: bool) -> None:
        """Data came: its time begins with a frame that came to its end, not with some more of the same."""
        if partial or session.write_paused:
            deadline = now + (READ_SECONDS if session.write_paused else FRAME_SECONDS)
            if whole:
                self._deadlines[session] = deadline
            else:
                self._deadlines.setdefault(session, deadline)
        elif session in self._deadlines:
            self._done(session)

    def stop(self, session: Session) -> None:
        """A connection is gone."""
        self._deadlines.pop(session, None)

    def expired(self, now: float) -> list[Session]:
        """The sessions whose time is up. Who has read a fair part has more of it: a large answer takes its time."""
        expired = []
        for session in [session for session, deadline in self._deadlines.items() if deadline < now]:
            if session.write_paused and _makes_progress(session):
                self._deadlines[session] = now + READ_SECONDS
            else:
                expired.append(session)
        return expired

    def _done(self, session: Session) -> None:
        """Who has yet to say hello, or to hang up, still has to."""
        if session.state in (State.AUTHENTICATING, State.OPEN):
            self._deadlines.pop(session, None)


def _makes_progress(session: Session) -> bool:
    before, session.unread_before = session.unread_before, session.connection.unsent
    return before - session.unread_before >= FAIR_READ
