"""The client's part of a trace: from the call until its caller has the answer.

Its phases: `queue` until there is a connection with room, `encode` until the request is written to the socket, and
`read` from the arrival of the answer until the caller continues. Between them are the network and the broker.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING

import msgspec

from stafette.errors import StafetteError
from stafette.protocol import messages as wire
from stafette.protocol.trace_fields import OPERATIONS, describe

if TYPE_CHECKING:
    from stafette.trace import Trace

INTENDED: ContextVar[int] = ContextVar("INTENDED", default=0)
"""When the next request of this task should have started, by ``time.perf_counter_ns``; that request uses it up.

An open loop sets it, so that response times count from there even if the load generator itself is late.
"""

NOT_APPLICABLE = -1
CANCELLED = "Cancelled"
LOST = "Lost"
"""Outcome of an attempt whose connection broke. Where the next one has the same id, it is recorded without its id."""


class LinkTiming(msgspec.Struct, gc=False):
    """The timing of a request on a connection. A msgspec struct is created three times as fast as a Python object."""

    started: int
    written: int = 0
    payload: int = 0
    """Bytes of the request and its answer."""
    arrived: int = 0
    """When the answer arrived; 0 if none came."""


class Tracing:
    """Records every attempt of one client to send a request."""

    def __init__(
        self, trace: Trace, client: str, attempt: Callable[[wire.Request, float], Awaitable[wire.Answer]]
    ) -> None:
        self.timings: dict[int, LinkTiming] = {}
        """By request id; transports fill them in."""
        self._trace = trace
        self._client = client
        self._attempt = attempt

    async def attempt(self, request: wire.Request, deadline: float) -> wire.Answer:
        """Make an attempt and record it, also if it fails."""
        start = time.perf_counter_ns()
        if intended := INTENDED.get():
            INTENDED.set(0)
        try:
            answer = await self._attempt(request, deadline)
        except asyncio.CancelledError:
            self._record(request, CANCELLED, 0, intended or start, start)
            raise
        except StafetteError as error:
            self._record(request, type(error).__name__, 0, intended or start, start)
            raise
        self._record(request, *describe(request, answer), intended or start, start)
        return answer

    def _record(self, request: wire.Request, outcome: str, messages: int, intended: int, start: int) -> None:
        end = time.perf_counter_ns()
        timing = self.timings.pop(request.id, None) or LinkTiming(end)
        repeated = outcome == LOST and hasattr(request, "again")
        self._trace.add(
            self._client, 0 if repeated else request.id, OPERATIONS[type(request)], outcome, intended, start, end,
            end - timing.arrived if timing.arrived else NOT_APPLICABLE,
            NOT_APPLICABLE,
            timing.started - start,
            NOT_APPLICABLE,
            NOT_APPLICABLE,
            timing.written - timing.started if timing.written else NOT_APPLICABLE,
            NOT_APPLICABLE,
            timing.payload, messages, NOT_APPLICABLE,
        )  # fmt: skip
