"""The broker's part of a trace: from the bytes of a request until its answer is written to the socket.

The phases follow one another without a gap, so that they add up: `read` until decoding begins (other requests came in
the same piece), `decode`, `queue` until the database call, `database`, `parked` while a read waits for a message,
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
from stafette.protocol.trace_fields import OPERATIONS, SESSION, describe

if TYPE_CHECKING:
    from stafette.trace import Trace


class RequestTiming(msgspec.Struct, gc=False):
    """The timestamps and durations of a request in flight, so far."""

    arrived: int
    decoding: int
    decoded: int
    payload: int
    since: int
    """Start of the present phase."""
    queue: int = 0
    database: int = 0
    parked: int = 0
    batch: int = -1


@contextmanager
def open_tracing(folder: Path | None, *, run: str, node: str, ahead_ns: int = 0) -> Iterator[Tracing | None]:
    """Trace into a folder, if there is one."""
    if folder is None:
        yield None
        return
    try:
        from stafette.trace import Trace  # needs pyarrow, which comes with stafette[lab]
    except ImportError as error:
        raise InvalidRequest(f"a trace needs {error.name}; install stafette[lab]") from error
    trace = Trace(folder, run=run, tier="broker", node=node, ahead_ns=ahead_ns)
    try:
        yield Tracing(trace)
    finally:
        trace.close()


class Tracing:
    """Records each answered request of a broker."""

    now = staticmethod(time.perf_counter_ns)

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def decode(self, session: Session, payload: bytes | memoryview, arrived: int) -> Request:
        """Decode a request that has just arrived, and start its timing."""
        decoding = time.perf_counter_ns()
        request = decode_request(payload)
        if type(request) not in SESSION:
            if session.timings is None:
                session.timings = {}
            decoded = time.perf_counter_ns()
            session.timings[request.id] = RequestTiming(arrived, decoding, decoded, len(payload), decoded)
        return request

    def performed(self, batch: Sequence[Ticket], started: int, ended: int) -> None:
        """The database has processed a batch."""
        size = len(batch)
        for ticket in batch:
            timings = ticket.session.timings
            if timings and (timing := timings.get(ticket.request.id)):
                timing.queue += started - timing.since
                timing.database += ended - started
                timing.since = ended
                timing.batch = size

    def woken(self, ticket: Ticket) -> None:
        """A read is no longer parked."""
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
