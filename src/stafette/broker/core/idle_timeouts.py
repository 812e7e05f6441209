"""Idle timeouts: which clients must say hello, finish a frame, read answers or hang up, and until when."""

from __future__ import annotations

from stafette.broker.core.session import Session, State
from stafette.broker.limits import FAIR_READ, FRAME_SECONDS, HANG_UP_SECONDS, HELLO_SECONDS, READ_SECONDS


class IdleTimeouts:
    """The deadlines of the few sessions that have one."""

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

    def excuse(self, session: Session) -> None:
        """A client has to wait for the broker, not the other way round."""
        self._clear(session)

    def await_frame(self, session: Session, now: float) -> None:
        """A client may go on with its frame, which has to end."""
        self._deadlines[session] = now + FRAME_SECONDS

    def caught_up(self, session: Session, now: float, *, partial: bool) -> None:
        """A client has read its answers. `partial`: whether it has begun a frame, which has to end."""
        if partial:
            self._deadlines[session] = now + FRAME_SECONDS
        else:
            self._clear(session)

    def received(self, session: Session, now: float, *, partial: bool, complete_frame: bool) -> None:
        """Data came. A completed frame starts a new deadline; more bytes of the same frame do not."""
        if partial or session.write_paused:
            deadline = now + (READ_SECONDS if session.write_paused else FRAME_SECONDS)
            if complete_frame:
                self._deadlines[session] = deadline
            else:
                self._deadlines.setdefault(session, deadline)
        elif session in self._deadlines:
            self._clear(session)

    def stop(self, session: Session) -> None:
        """A connection is closed."""
        self._deadlines.pop(session, None)

    def expired(self, now: float) -> list[Session]:
        """The sessions whose time is up. A client that has read enough gets more time: large answers take long."""
        expired = []
        for session in [session for session, deadline in self._deadlines.items() if deadline < now]:
            if session.write_paused and _makes_progress(session):
                self._deadlines[session] = now + READ_SECONDS
            else:
                expired.append(session)
        return expired

    def _clear(self, session: Session) -> None:
        """Remove a deadline, unless the client still has to say hello or hang up."""
        if session.state in (State.AUTHENTICATING, State.OPEN):
            self._deadlines.pop(session, None)


def _makes_progress(session: Session) -> bool:
    before, session.unread_before = session.unread_before, session.connection.unsent
    return before - session.unread_before >= FAIR_READ
