"""Failover: a connection to one of the brokers in the address, and if it breaks, to another.

The session continues there. A request that was not sent or not accepted is sent again, and so is one that may be made
twice without harm: each method of `aio.py` says whether that is so (`repeatable`). A receive is sent again under its
first id, and gets what it got the first time; later requests name the answers that have arrived, and a receive whose
caller no longer waits is named too, so that its messages go back. Any other request fails with Unavailable, because
only the caller can know whether to repeat it.

From when a request misses its connection, a broker is sought for `timeout` seconds at most, however long the request
may wait for a message; a read that has found one waits there for the rest of its time. That the connection is lost,
and that there is one again, is written to the log `stafette.client`.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import random
import secrets
import warnings
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from stafette.client.address import Address
from stafette.client.tracing import Tracing
from stafette.client.transport import Transport
from stafette.errors import (
    AlreadyOnline,
    InternalError,
    InvalidRequest,
    ServerFull,
    StafetteError,
    TryAgain,
    Unavailable,
)
from stafette.model import Mode
from stafette.protocol import messages as wire
from stafette.protocol.client import FRAME_LIMIT, HungUp, Lost, NotAccepted, State, TooLate

if TYPE_CHECKING:
    from stafette.trace import Trace

log = logging.getLogger("stafette.client")
"""A public name: programs and commands that want to say that the connection is lost listen to it."""
log.addHandler(logging.NullHandler())

FIRST_PAUSE, MAX_PAUSE = 0.05, 1.0
"""Seconds between rounds of the brokers: doubled each time, with jitter so that clients do not come all at once."""

ATTEMPT_SECONDS = 5.0
"""How long one broker may take to answer the hello if there are others to try."""

BYE_SECONDS = 2.0
"""How long the answer to a bye may take before the client hangs up."""

LAST_WORD_SECONDS = 10.0
"""How long a client that closes looks for a broker to tell which of its reads have been given up."""

REPLAY_SECONDS = 120.0
"""How long brokers keep the answer to a receive that nobody has named as seen or given up."""

MAX_SECONDS = 1e9
"""The largest number of seconds that the protocol accepts."""

Answer = TypeVar("Answer", bound=wire.Frame)

# The rules, apart from waiting


def may_repeat(error: StafetteError, request: Any, *, repeatable: bool) -> bool:
    """Whether to send a request again. One that was lost may have taken effect, one that was not accepted has not.

    A request that says that it is sent again (`again`) is repeated whenever nobody knows what became of it.
    """
    if isinstance(error, NotAccepted):
        return True
    if hasattr(request, "again"):
        return isinstance(error, TryAgain) and error.outcome == "unknown" and not isinstance(error, TooLate | HungUp)
    return repeatable and isinstance(error, Lost)


def next_pause(pause: float) -> float:
    """The pause after this one."""
    return min(max(FIRST_PAUSE, 2 * pause), MAX_PAUSE)


def search_deadline(now: float, timeout: float, deadline: float) -> float:
    """Until when to look for a broker, for a request that misses its connection now."""
    return min(now + timeout, deadline)


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
        self._is_lost = False
        """Whether the loss of the connection has been logged, and no broker has been found since."""
        self._closed = False
        self._ids = itertools.count(1)
        """Request ids, over all connections: name and id identify a request, in the broker's trace too."""
        self._receives: dict[int, wire.Receive] = {}
        """The receives whose callers wait, by the identity of the object: they have no id before they are sent."""
        self._seen: list[int] = []
        """Receives whose answers have arrived, to be named by the next request."""
        self._given_up: dict[int, float] = {}
        """Reads whose callers no longer wait, and when that was; until a broker has heard of them."""
        self._giving_up: asyncio.Task[None] | None = None
        self._tracing = Tracing(trace, name, self._attempt) if trace is not None else None

    async def open(self) -> None:
        """Find a broker; each is tried once."""
        async with self._connecting:
            await self._find(self._loop.time() + self._timeout, rounds=1)

    async def close(self) -> None:
        """Hang up; the name is free when this returns. Requests in flight get their answers, except waiting reads."""
        self._check_loop()
        transport, self._transport = self._transport, None
        if self._closed:
            return
        self._closed = True
        started, pause = self._loop.time(), 0.0
        for read in self._receives.values():
            if read.wait or read.again:
                self.give_up(read)
        said: set[int] = set()
        if transport is None or not await self._say_bye(transport, said, started + min(self._timeout, BYE_SECONDS)):
            for read in self._receives.values():  # nobody answers those that do not wait either
                self.give_up(read)
        deadline = started + min(self._timeout, LAST_WORD_SECONDS)
        while self._given_up.keys() - said and self._loop.time() < deadline:
            self._rotation.advance()
            with contextlib.suppress(StafetteError):
                if await self._say_bye(await self._connect(deadline), said, deadline):
                    continue
            await _sleep(pause)
            pause = next_pause(pause)

    async def _say_bye(self, transport: Transport, said: set[int], deadline: float) -> bool:
        """End the session, after naming the reads whose callers no longer wait; False if that was not to be done."""
        given_up = self._given_up.keys() - said
        try:
            cancels = [transport.ask(wire.Cancel(0, request), deadline) for request in given_up]
            bye = transport.ask(wire.Bye(0, tuple(self._seen[: wire.MAX_SEEN])), deadline)
            await asyncio.gather(*cancels, bye)
        except StafetteError:
            return False
        finally:
            transport.close()
            await transport.wait_closed(deadline)
        said |= given_up
        return True

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
        lost: TryAgain | None = None
        while True:
            try:
                answer = await attempt(request, deadline)
            except TryAgain as error:
                if not may_repeat(error, request, repeatable=repeatable):
                    if lost is not None and error.outcome == "not done":
                        raise lost from error  # it may have been done the first time
                    raise
                if error.outcome == "unknown":
                    lost = error
                if getattr(request, "again", None) is False and error.outcome == "unknown":
                    request.again = True
                elif not getattr(request, "again", False):
                    request.id = 0
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

    async def receive(self, request: wire.Receive) -> wire.Messages:
        """Receive, also if the answer is lost on its way. What nobody waits for any more goes back into its queue."""
        self._receives[id(request)] = request
        request.seen, self._seen = tuple(self._seen[: wire.MAX_SEEN]), self._seen[wire.MAX_SEEN :]
        try:
            answer = await self.ask(request, wire.Messages, wait=request.wait)
        except BaseException as error:
            self._seen += request.seen
            if request.again or getattr(error, "outcome", "unknown") == "unknown":
                self.give_up(request)
            raise
        finally:
            del self._receives[id(request)]
        if request.id in self._given_up or (self._closed and request.wait and not answer.messages):
            raise HungUp("the client has been closed while it waited for a message", outcome="not done")
        if answer.messages:
            self._seen.append(request.id)
        return answer

    def give_up(self, read: wire.Receive | wire.Peek | wire.Lease) -> None:
        """The caller of a read no longer waits: the broker must hear of it, this one or the next."""
        if not read.id:
            return
        self._given_up[read.id] = self._loop.time()
        if self._giving_up is None and not self._closed:
            self._giving_up = self._loop.create_task(self._name_given_up())

    async def _name_given_up(self) -> None:
        """Name what has been given up, until a broker has heard of it or has forgotten its answer."""
        pause = 0.0
        while self._given_up and not self._closed:
            oldest = self._loop.time() - REPLAY_SECONDS
            self._given_up = {request: at for request, at in self._given_up.items() if at > oldest}
            requests = list(self._given_up)
            outcomes = await asyncio.gather(*map(self._cancel, requests), return_exceptions=True)
            for request, outcome in zip(requests, outcomes, strict=True):
                if not (self._closed or isinstance(outcome, TryAgain | InternalError)):
                    self._given_up.pop(request, None)
            if self._given_up:
                await _sleep(pause)
                pause = next_pause(pause)
        self._giving_up = None

    async def _cancel(self, request: int) -> None:
        """Name one request. It does not wait for room, which the requests that are named may take."""
        deadline = self._loop.time() + self._timeout
        transport = self._transport
        if transport is None or not transport.connection.is_open:
            transport = await self._find_shared(deadline)
        await transport.ask(wire.Cancel(0, request), deadline)

    async def _attempt(self, request: Any, deadline: float) -> wire.Answer:
        """Send a request once, as soon as there is a connection with room for it."""
        while True:
            transport = self._transport
            if transport is None or not transport.connection.is_open:
                transport = await self._find_shared(search_deadline(self._loop.time(), self._timeout, deadline))
            if transport.congested or not transport.connection.has_room(request):
                await transport.wait_for_room(request, deadline)
                if not transport.connection.is_open:
                    continue
            return await transport.ask(request, deadline)

    def _check_loop(self) -> None:
        if asyncio.get_running_loop() is not self._loop:
            raise InvalidRequest("this client belongs to another event loop; connect in the one that uses it")

    async def _find_shared(self, deadline: float) -> Transport:
        """Find a broker, once for all requests that need one; each waits until its own deadline at most."""
        try:
            async with asyncio.timeout_at(deadline), self._connecting:
                if self._transport is not None and not self._transport.connection.is_open:
                    seconds = deadline - self._loop.time()
                    log.warning("the connection to the broker is lost; looking for one for up to %.3g s", seconds)
                    self._is_lost = True
                transport = await self._find(deadline)
                if self._is_lost:
                    log.info("there is a connection again, to %s:%d", *self._rotation.broker)
                    self._is_lost = False
                return transport
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
                    if isinstance(error, Lost):  # the hello is, and not the request that the connection is for
                        raise Unavailable(str(error), outcome="not done") from error
                    error.outcome = "not done"
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
