"""Admission: which requests and clients a broker accepts. The default is to refuse."""

from __future__ import annotations

from stafette.broker.core.operation import READS
from stafette.broker.core.session import Session
from stafette.broker.core.values import invalid_value
from stafette.broker.limits import Limits
from stafette.errors import InvalidRequest, NotAuthenticated, Overloaded, PermissionDenied, ServerFull, StafetteError
from stafette.protocol.messages import VERSION, Hello, Request


class Admission:
    """Counts the requests of all sessions, and what was refused."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.active = 0
        """Requests in backlogs and on their way to or from the database. Reads that wait for a message do not count."""
        self.refusals: dict[str, int] = {}

    def refusal(self, session: Session, request: Request) -> StafetteError | None:
        """Why a request of an open session is refused; None: it is accepted."""
        if session.in_flight >= self._limits.in_flight_per_client:
            return Overloaded("too many requests of this client are in flight; read answers first")
        if self.active >= self._limits.in_flight:
            return Overloaded("the broker is overloaded; try again later")
        if type(request) is Hello:
            return InvalidRequest("this session has already said hello")
        if session.mode != "full" and type(request) not in READS:
            return PermissionDenied(f"client {session.name} is read-only and cannot change anything")
        if problem := invalid_value(request):
            return InvalidRequest(problem)
        return None

    def session_refusal(self, sessions: int) -> StafetteError | None:
        """Why no further client is admitted; None: there is room."""
        if sessions < self._limits.clients:
            return None
        return ServerFull(f"the broker is at its limit of {self._limits.clients} clients; try another broker, or later")

    def count_refusal(self, reason: str) -> None:
        """Count a refusal."""
        self.refusals[reason] = self.refusals.get(reason, 0) + 1


def hello_refusal(hello: Hello, *, require_secret: bool) -> StafetteError | None:
    """Why a hello is invalid; None: it is valid."""
    if hello.version != VERSION:
        return InvalidRequest(f"this broker speaks version {VERSION} of the protocol, not {hello.version}")
    if hello.timeout <= 0:
        return InvalidRequest(f"timeout {hello.timeout:g} is not positive; it is a number of seconds")
    if problem := invalid_value(hello):
        return InvalidRequest(problem)
    if require_secret and not hello.secret:
        return NotAuthenticated("this broker requires a secret; connect with one")
    return None
