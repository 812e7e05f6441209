"""Admission: what a broker takes on, over all sessions. The default is to refuse."""

from __future__ import annotations

from stafette.broker.core.operation import READS
from stafette.broker.core.session import Session
from stafette.broker.limits import Limits
from stafette.errors import InvalidRequest, Overloaded, PermissionDenied, ServerFull, StafetteError
from stafette.protocol.messages import VERSION, Hello, Request


class Admission:
    """Counts the requests of all sessions, and what was refused."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.active = 0
        """Requests in backlogs and on their way to or from the database. Reads that wait for a message do not count."""
        self.refusals: dict[str, int] = {}

    def refusal(self, session: Session, request: Request) -> StafetteError | None:
        """Why a request of an open session is not taken on; None: it is."""
        if session.in_flight >= self._limits.in_flight_per_client:
            return Overloaded("too many requests of this client are in flight; read answers first")
        if self.active >= self._limits.in_flight:
            return Overloaded("the broker has too much to do; try again later")
        if type(request) is Hello:
            return InvalidRequest("this session has said hello already")
        if session.mode != "full" and type(request) not in READS:
            return PermissionDenied(f"client {session.name} is read-only; it may only look")
        return None

    def may_wait_for_hello(self, session: Session) -> bool:
        """Whether a request may wait until its session is authenticated."""
        return session.in_flight < self._limits.in_flight_per_client

    def session_refusal(self, sessions: int) -> StafetteError | None:
        """Why no further client is let in; None: there is room."""
        if sessions < self._limits.clients:
            return None
        return ServerFull(f"the broker serves its limit of {self._limits.clients} clients; try another, or later")

    def count_refusal(self, reason: str) -> None:
        """Count something that was refused."""
        self.refusals[reason] = self.refusals.get(reason, 0) + 1


def hello_refusal(hello: Hello) -> StafetteError | None:
    """Why a hello is not understood; None: it is."""
    if hello.version != VERSION:
        return InvalidRequest(f"this broker speaks version {VERSION} of the protocol, not {hello.version}")
    if hello.timeout <= 0:
        return InvalidRequest(f"timeout {hello.timeout:g} is not positive; it is a number of seconds")
    return None
