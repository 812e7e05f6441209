"""Failover: a connection to one of the brokers in the address, and if it breaks, to another.

The session continues there. A request that was not sent or not accepted is sent again, and so is one that may be made
twice without harm: each method of `aio.py` says whether that is so (`repeatable`). Any other fails with Unavailable,
because only the caller can know whether to repeat it.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
import secrets
import warnings
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from stafette.client.address import Address
from stafette.client.tracing import Tracing
from stafette.client.transport import Transport
from stafette.errors import AlreadyOnline, InternalError, InvalidRequest, ServerFull, StafetteError, Unavailable
from stafette.model import Mode
from stafette.protocol import messages as wire
from stafette.protocol.client import FRAME_LIMIT, Lost, NotAccepted, State

if TYPE_CHECKING:
    from stafette.trace import Trace

FIRST_PAUSE, MAX_PAUSE = 0.05, 1.0
"""Seconds between rounds of the brokers: doubled each time, with jitter so that clients do not come all at once."""

ATTEMPT_SECONDS = 5.0
"""How long one broker may take to answer the hello if there are others to try."""

BYE_SECONDS = 2.0
"""How long the answer to a bye may take before the client hangs up."""

MAX_SECONDS = 1e9
"""The largest number of seconds that the protocol accepts."""

Answer = TypeVar("Answer", bound=wire.Frame)

# The rules, apart from waiting


def may_repeat(error: Lost | NotAccepted, *, repeatable: bool) -> bool:
    """Whether to send a request again: one that was lost may have taken effect, one that was not accepted has not."""
    return repeatable or isinstance(error, NotAccepted)


def next_pause(pause: float) -> float:
    """The pause after this one."""
    return min(max(FIRST_PAUSE, 2 * pause), MAX_PAUSE)


class BrokerRotation:
    """Which broker to try next, and for how long."""

    def __init__(self, brokers: tuple[tuple[str, int], ...]) -> None:
        self._brokers = brokers
        self._turn = 0
        self._may_hold_session = False
        """Whether a broker may hold a session of this client: then AlreadyOnline may be about it, and pass."""

    def __len__(self) -> int:
        return len(self._brokers)

    @property
    def broker(self) -> tuple[str, int]:
        """The broker to try."""
        return self._brokers[self._turn % len(self._brokers)]

    def attempt_deadline(self, now: float, deadline: float) -> float:
        """Until when to try it: with several brokers, each gets a share of the time."""
        if len(self._brokers) == 1:
            return deadline
        return now + min(ATTEMPT_SECONDS, (deadline - now) / len(self._brokers))

    def advance(self) -> None:
        """The broker has failed: go on to the next."""
        self._turn += 1

    def on_welcome(self) -> None:
        """The broker has opened a session."""
        self._may_hold_session = True

    def may_pass(self, error: StafetteError) -> bool:
        """Whether another attempt could succeed after this one; a lost hello may have opened a session."""
        self._may_hold_session = self._may_hold_session or isinstance(error, Lost)
        return self._may_hold_session or not isinstance(error, AlreadyOnline)


class Search:
    """One search for a broker: when it ends, and how long to pause between attempts."""

    def __init__(self, rotation: BrokerRotation, deadline: float, rounds: int | None) -> None:
        self._rotation = rotation
        self._deadline = deadline
        self._max_failures = None if rounds is None else rounds * len(rotation)
        self._failures = 0
        self._pause = FIRST_PAUSE

    def pause_after(self, error: StafetteError, now: float) -> float | None:
        """Seconds until the next attempt, 0 within a round of the brokers; None if the search is over."""
        self._rotation.advance()
        self._failures += 1
        if not self._rotation.may_pass(error):
            return None
        is_last = self._max_failures is not None and self._failures >= self._max_failures
        if is_last and not isinstance(error, AlreadyOnline):
            return None
        if self._failures % len(self._rotation):
            return 0.0
        pause, self._pause = self._pause, next_pause(self._pause)
        return pause if now + pause < self._deadline else None


class Failover:
    """Gets every request answered, through any broker that can be reached."""

    def __init__(
        self, address: Address, *, name: str, mode: Mode, secret: str | None, timeout: float, trace: Trace | None
    ) -> None:
        if not 0 < timeout <= MAX_SECONDS:
            raise InvalidRequest(f"timeout {timeout} is not a positive number of seconds")
        self._rotation = BrokerRotation(address.brokers)
        self._tls = address.tls_context()
        self._hello = (name, mode, secret)
        self._session = 1 + secrets.randbits(62)
        """Which client this is, at every broker: it continues its session with it."""
        self._timeout = timeout
        self._loop = asyncio.get_running_loop()
        self._process = os.getpid()
        self._transport: Transport | None = None
        self._connecting = asyncio.Lock()
        self._closed = False
        self._ids = itertools.count(1)
        """Request ids, over all connections: name and id identify a request, in the broker's trace too."""
        self._tracing = Tracing(trace, name, self._attempt) if trace is not None else None

    async def open(self) -> None:
        """Find a broker; each is tried once."""
        async with self._connecting:
            await self._find(self._loop.time() + self._timeout, rounds=1)

    async def close(self) -> None:
        """Hang up; the name is free when this returns. Requests in flight get their answers, except waiting reads."""
        self._check_loop()
        self._closed = True
        transport, self._transport = self._transport, None
        if transport is None:
            return
        deadline = self._loop.time() + min(self._timeout, BYE_SECONDS)
        try:
            with contextlib.suppress(StafetteError):
                await transport.ask(wire.Bye(0), deadline)
        finally:
            transport.close()
        await transport.wait_closed(deadline)

    def __del__(self) -> None:
        transport = getattr(self, "_transport", None)
        if (
            transport is None
            or transport.connection.state is State.CLOSED
            or self._loop.is_closed()
            or self._process != os.getpid()
        ):
            return
        warnings.warn(f"client {self._hello[0]} has not been closed", ResourceWarning, source=self, stacklevel=2)
        self._loop.call_soon_threadsafe(transport.close)

    async def ask(
        self,
        request: Any,
        expected: type[Answer],
        *,
        wait: float | None = None,
        repeatable: bool = False,
        timeout: float | None = None,
    ) -> Answer:
        """Send a request and return its answer; a read may take `wait` seconds longer than other requests."""
        loop = self._loop
        if asyncio.get_running_loop() is not loop:
            self._check_loop()
        until = loop.time()
        if wait is not None:
            if not 0 <= wait <= MAX_SECONDS:
                raise InvalidRequest(f"wait {wait} is not a number of seconds from 0 to {MAX_SECONDS:g}")
            until += wait
        deadline = until + (self._timeout if timeout is None else timeout)
        attempt = self._attempt if self._tracing is None else self._tracing.attempt
        pause = 0.0
        while True:
            try:
                answer = await attempt(request, deadline)
            except (Lost, NotAccepted) as error:
                if not may_repeat(error, repeatable=repeatable):
                    raise
            except (msgspec.MsgspecError, TypeError, OverflowError, UnicodeError) as error:
                raise InvalidRequest(f"cannot send that: {error}") from error
            else:
                if type(answer) is not expected:
                    raise InternalError(f"the broker answered with {type(answer).__name__}")
                return cast(Answer, answer)
            await _sleep(pause)
            pause = next_pause(pause)
            if wait:
                request.wait = max(0.0, until - loop.time())

    async def _attempt(self, request: Any, deadline: float) -> wire.Answer:
        """Send a request once, as soon as there is a connection with room for it."""
        while True:
            transport = self._transport
            if transport is None or not transport.connection.is_open:
                transport = await self._find_shared(deadline)
            if transport.congested or not transport.connection.has_room(request):
                await transport.wait_for_room(request, deadline)
                if not transport.connection.is_open:
                    continue
            try:
                return await transport.ask(request, deadline)
            except asyncio.CancelledError:
                transport.cancel(request)
                raise

    def _check_loop(self) -> None:
        if asyncio.get_running_loop() is not self._loop:
            raise InvalidRequest("this client belongs to another event loop; connect in the one that uses it")

    async def _find_shared(self, deadline: float) -> Transport:
        """Find a broker, once for all requests that need one; each waits until its own deadline at most."""
        try:
            async with asyncio.timeout_at(deadline), self._connecting:
                return await self._find(deadline)
        except TimeoutError as error:
            raise Unavailable("no broker could be reached in time; nothing has happened", outcome="not done") from error

    async def _find(self, deadline: float, rounds: int | None = None) -> Transport:
        """Continue the session through any broker; tries until the deadline, or for `rounds` rounds."""
        search = Search(self._rotation, deadline, rounds)
        while True:
            if self._closed:
                raise InvalidRequest("the client has been closed; connect again")
            if self._transport is not None:
                if self._transport.connection.is_open:
                    return self._transport
                self._transport = None
                self._rotation.advance()
            try:
                self._transport = await self._connect(deadline)
            except (ServerFull, Unavailable, AlreadyOnline) as error:
                pause = search.pause_after(error, self._loop.time())
                if pause is None:
                    raise
                if pause:
                    await _sleep(pause)
            else:
                if self._closed:  # while connecting
                    self._transport.close()
                    self._transport = None

    async def _connect(self, deadline: float) -> Transport:
        """Try the broker whose turn it is."""
        name, mode, secret = self._hello
        transport, _ = await Transport.open(
            self._rotation.broker,
            wire.Hello(0, wire.VERSION, name, mode, secret, self._timeout, self._session, FRAME_LIMIT),
            tls=self._tls,
            deadline=self._rotation.attempt_deadline(self._loop.time(), deadline),
            ids=self._ids,
            timings=None if self._tracing is None else self._tracing.timings,
        )
        self._rotation.on_welcome()
        return transport


async def _sleep(pause: float) -> None:
    await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311
