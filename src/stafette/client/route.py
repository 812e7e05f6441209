"""The way to a broker: one link to one of the brokers we know, and when it breaks, to another.

The session continues there. A request that has not been sent, was not accepted, changes nothing or bears a key is then
sent again; any other fails with Unavailable, because only its caller can know whether to repeat it.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
import warnings
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from stafette.client.address import Address
from stafette.client.link import Link, Lost, NotAccepted
from stafette.client.tracing import Tracing
from stafette.errors import AlreadyOnline, InternalError, InvalidRequest, ServerFull, StafetteError, Unavailable
from stafette.model import Mode
from stafette.protocol import messages as wire

if TYPE_CHECKING:
    from stafette.trace import Trace

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
"""Seconds between rounds of the brokers: doubling, with some chance in it so that clients do not come in step."""

ATTEMPT_SECONDS = 5.0
"""How long one broker may take to let us in while there are others to try."""

BYE_SECONDS = 2.0
"""How long leaving may take before we just hang up."""

LONGEST_SECONDS = 1e9
"""What the protocol takes for a number of seconds."""

Answer = TypeVar("Answer", bound=wire.Frame)


class Route:
    """Gives every request its answer, through whichever broker can be reached."""

    def __init__(
        self, address: Address, *, name: str, mode: Mode, secret: str | None, timeout: float, trace: Trace | None
    ) -> None:
        if not 0 < timeout <= LONGEST_SECONDS:
            raise InvalidRequest(f"timeout {timeout} is not a positive number of seconds")
        self._brokers = address.brokers
        self._tls = address.tls_context()
        self._hello = (name, mode, secret)
        self._timeout = timeout
        self._loop = asyncio.get_running_loop()
        self._process = os.getpid()
        self._link: Link | None = None
        self._session: int | None = None
        self._known = False
        """Whether a broker may hold a session of ours: then AlreadyOnline may be about ourselves, and pass."""
        self._turn = 0
        self._linking = asyncio.Lock()
        self._closed = False
        self._ids = itertools.count(1)
        """Of requests, whichever link they take: a name and an id are one request, in the broker's trace too."""
        self._tracing = Tracing(trace, name, self._attempt) if trace is not None else None

    async def open(self) -> None:
        """Find a broker; each is tried once."""
        async with self._linking:
            await self._find(self._loop.time() + self._timeout, rounds=1)

    async def close(self) -> None:
        """Hang up; the name is free when this returns. What is under way gets its answer, except reads that wait."""
        self._check_loop()
        self._closed = True
        link, self._link = self._link, None
        if link is None:
            return
        deadline = self._loop.time() + min(self._timeout, BYE_SECONDS)
        try:
            with contextlib.suppress(StafetteError):
                await link.ask(wire.Bye(0), deadline)
        finally:
            link.close()
        await link.closed(deadline)

    def __del__(self) -> None:
        link = getattr(self, "_link", None)
        if link is None or link.over or self._loop.is_closed() or self._process != os.getpid():
            return
        warnings.warn(f"client {self._hello[0]} has not been closed", ResourceWarning, source=self, stacklevel=2)
        self._loop.call_soon_threadsafe(link.close)

    async def ask(
        self,
        request: Any,
        expected: type[Answer],
        *,
        wait: float | None = None,
        repeatable: bool = False,
        timeout: float | None = None,
    ) -> Answer:
        """Send a request and return its answer; a read may take `wait` seconds more than others."""
        loop = self._loop
        if asyncio.get_running_loop() is not loop:
            self._check_loop()
        until = loop.time()
        if wait is not None:
            if not 0 <= wait <= LONGEST_SECONDS:
                raise InvalidRequest(f"wait {wait} is not a number of seconds from 0 to {LONGEST_SECONDS:g}")
            until += wait
        deadline = until + (self._timeout if timeout is None else timeout)
        attempt = self._attempt if self._tracing is None else self._tracing.attempt
        pause = 0.0
        while True:
            try:
                answer = await attempt(request, deadline)
            except (Lost, NotAccepted) as error:
                if not repeatable and isinstance(error, Lost):
                    raise
            except (msgspec.MsgspecError, TypeError, OverflowError, UnicodeError) as error:
                raise InvalidRequest(f"cannot send that: {error}") from error
            else:
                if type(answer) is not expected:
                    raise InternalError(f"the broker answered with {type(answer).__name__}")
                return cast(Answer, answer)
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311
            pause = min(max(FIRST_PAUSE, 2 * pause), LONGEST_PAUSE)
            if wait:
                request.wait = max(0.0, until - loop.time())

    async def _attempt(self, request: Any, deadline: float) -> wire.Answer:
        """Send a request once, as soon as there is a link with room for it."""
        while True:
            link = self._link
            if link is None or not link.usable:
                link = await self._find_in_turn(deadline)
            if link.congested:
                await link.room(deadline)
                if not link.usable:
                    continue
            try:
                return await link.ask(request, deadline)
            except asyncio.CancelledError:
                link.forget(request)
                raise

    def _check_loop(self) -> None:
        if asyncio.get_running_loop() is not self._loop:
            raise InvalidRequest("this client belongs to another event loop; connect in the one that uses it")

    async def _find_in_turn(self, deadline: float) -> Link:
        """Find a broker; who comes while somebody else does that waits for it, but not longer than it may."""
        try:
            async with asyncio.timeout_at(deadline), self._linking:
                return await self._find(deadline)
        except TimeoutError as error:
            raise Unavailable("no broker could be reached in time; nothing has happened") from error

    async def _find(self, deadline: float, rounds: int | None = None) -> Link:
        """Continue the session through any broker, trying again and again until the deadline, or for some rounds."""
        failures, pause = 0, FIRST_PAUSE
        while True:
            if self._closed:
                raise InvalidRequest("the client has been closed; connect again")
            if self._link is not None:
                if self._link.usable:
                    return self._link
                self._link = None
                self._turn += 1  # it was that one's fault
            try:
                self._link = await self._try_next(deadline)
            except (ServerFull, Unavailable, AlreadyOnline) as error:
                self._turn += 1
                failures += 1
                self._known = self._known or isinstance(error, Lost)
                if isinstance(error, AlreadyOnline):
                    if not self._known:
                        raise
                elif rounds is not None and failures >= rounds * len(self._brokers):
                    raise
                if failures % len(self._brokers) == 0:
                    if self._loop.time() + pause >= deadline:
                        raise
                    await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311
                    pause = min(pause * 2, LONGEST_PAUSE)
            else:
                if self._closed:  # meanwhile
                    self._link.close()
                    self._link = None

    async def _try_next(self, deadline: float) -> Link:
        broker = self._brokers[self._turn % len(self._brokers)]
        if len(self._brokers) > 1:
            now = self._loop.time()
            deadline = now + min(ATTEMPT_SECONDS, (deadline - now) / len(self._brokers))
        name, mode, secret = self._hello
        hello = wire.Hello(0, wire.VERSION, name, mode, secret, self._timeout, self._session)
        passages = None if self._tracing is None else self._tracing.passages
        link = await Link.open(broker, hello, tls=self._tls, deadline=deadline, ids=self._ids, passages=passages)
        assert link.welcome is not None
        self._session, self._known = link.welcome.session, True
        return link
