"""The broker's part of a trace: from the bytes of a request until its answer is handed to the socket.

The phases follow one another without a gap, so that they add up: `read` until decoding begins (others came in the same
piece), `decode`, `queue` until the call of the database, `database`, `parked` while a read waits for a message,
`encode` from there until the answer is encoded (others of the same batch go first), `write`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from stafette.broker.core.session import Session, Ticket
from stafette.errors import InvalidRequest
from stafette.protocol.frames import frame
from stafette.protocol.messages import Answer, Request, decode_request, encode
from stafette.protocol.outcomes import OPERATIONS, SESSION, describe

if TYPE_CHECKING:
    from stafette.trace import Trace


class RequestTiming(msgspec.Struct, gc=False):
    """When a request in flight did what, so far."""

    arrived: int
    decoding: int
    decoded: int
    payload: int
    since: int
    """When the present phase began."""
    queue: int = 0
    database: int = 0
    parked: int = 0
    batch: int = -1


@contextmanager
def traced(folder: Path | None, *, run: str, node: str, ahead_ns: int = 0) -> Iterator[Tracing | None]:
    """Trace into a folder, if there is one."""
    if folder is None:
        yield None
        return
    try:
        from stafette.trace import Trace  # what it needs is installed with the laboratory alone
    except ImportError as error:
        raise InvalidRequest(f"a trace needs {error.name}; install stafette[lab]") from error
    trace = Trace(folder, run=run, tier="broker", node=node, ahead_ns=ahead_ns)
    try:
        yield Tracing(trace)
    finally:
        trace.close()


class Tracing:
    """Records each request of a broker that has got its answer."""

    now = staticmethod(time.perf_counter_ns)

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def decode(self, session: Session, payload: bytes, arrived: int) -> Request:
        """Decode a request that arrived just now, and begin its timing."""
        decoding = time.perf_counter_ns()
        request = decode_request(payload)
        if type(request) not in SESSION:
            if session.timings is None:
                session.timings = {}
            decoded = time.perf_counter_ns()
            session.timings[request.id] = RequestTiming(arrived, decoding, decoded, len(payload), decoded)
        return request

    def performed(self, batch: Sequence[Ticket], began: int, ended: int) -> None:
        """The database has worked on a batch."""
        size = len(batch)
        for ticket in batch:
            timings = ticket.session.timings
            if timings and (timing := timings.get(ticket.request.id)):
                timing.queue += began - timing.since
                timing.database += ended - began
                timing.since = ended
                timing.batch = size

    def woken(self, ticket: Ticket) -> None:
        """A read has been parked until now."""
        timings = ticket.session.timings
        if timings and (timing := timings.get(ticket.request.id)):
            now = time.perf_counter_ns()
            timing.parked += now - timing.since
            timing.since = now

    def reply(self, session: Session, request: Request, answer: Answer, write: Callable[[bytes], None]) -> None:
        """Send an answer and record the request with it."""
        timing = session.timings.pop(request.id, None) if session.timings else None
        if timing is None:
            write(frame(encode(answer)))
            return
        payload = encode(answer)
        encoded = time.perf_counter_ns()
        write(frame(payload))
        end = time.perf_counter_ns()
        outcome, messages = describe(request, answer)
        self._trace.add(
            session.name, request.id, OPERATIONS[type(request)], outcome, timing.arrived, timing.arrived, end,
            timing.decoding - timing.arrived,
            timing.decoded - timing.decoding,
            timing.queue,
            timing.database,
            timing.parked,
            encoded - timing.since,
            end - encoded,
            timing.payload + len(payload), messages, timing.batch,
        )  # fmt: skip
