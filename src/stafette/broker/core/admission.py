"""Admission: which requests and clients a broker accepts. The default is to refuse."""

from __future__ import annotations

from stafette.broker.core.operation import READS
from stafette.broker.core.session import Session
from stafette.broker.core.values import invalid_value
from stafette.broker.limits import SMALL_SHARE, Limits
from stafette.errors import (
    InvalidRequest,
    MessageTooLarge,
    NotAuthenticated,
    Overloaded,
    PermissionDenied,
    ServerFull,
    StafetteError,
)
from stafette.protocol.messages import VERSION, Hello, Request


class Admission:
    """Counts the requests of all sessions, and what was refused."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._half = limits.in_flight_bytes // 2
        self._small_share = min(SMALL_SHARE, limits.in_flight_bytes_per_client)
        self.active = 0
        """Requests in backlogs and on their way to or from the database. Reads that wait for a message do not count."""
        self.bytes = 0
        """Bytes of all requests that are accepted and not yet answered."""
        self.refusals: dict[str, int] = {}
        self.refused_bytes = 0
        """Bytes of requests that were refused because of their bytes."""

    def refusal(self, session: Session, request: Request, size: int) -> StafetteError | None:
        """Why a request of an open session is refused, whose bytes are `size`; None: it is accepted."""
        if session.in_flight >= self._limits.in_flight_per_client:
            return Overloaded("too many requests of this client are in flight; read answers first")
        if self.active >= self._limits.in_flight:
            return Overloaded("the broker is overloaded; try again later")
        if (
            size
            and (self.bytes + size > self._half or session.in_flight_bytes + size > self._small_share)
            and (error := self._byte_refusal(session, size))
        ):
            self.refused_bytes += size
            return error
        if type(request) is Hello:
            return InvalidRequest("this session has already said hello")
        if session.mode != "full" and type(request) not in READS:
            return PermissionDenied(f"client {session.name} is read-only and cannot change anything")
        if problem := invalid_value(request):
            return InvalidRequest(problem)
        return None

    def _byte_refusal(self, session: Session, size: int) -> StafetteError | None:
        limits = self._limits
        of_client, of_all = session.in_flight_bytes + size, self.bytes + size
        if of_client > limits.in_flight_bytes_per_client:
            if size > limits.in_flight_bytes_per_client:
                return MessageTooLarge(
                    f"the request comes to {size} bytes, each message once for every queue; the broker takes at most"
                    f" {limits.in_flight_bytes_per_client}; send less at once, or to fewer queues"
                )
            return Overloaded("too many bytes of this client are in flight; read answers first")
        if of_all > limits.in_flight_bytes or (of_all > self._half and of_client > SMALL_SHARE):
            return Overloaded("too many bytes are in flight at the broker; try again later")
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
