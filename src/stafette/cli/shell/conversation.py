"""One line after another: finds the command, runs it, and notices when the broker is gone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

from stafette.cli import exits
from stafette.cli.shell import show
from stafette.cli.shell.commands import find
from stafette.cli.shell.connecting import connect_to
from stafette.cli.shell.grammar import Usage, parse
from stafette.cli.shell.on_leases import drop_if_over
from stafette.cli.shell.on_messages import Nothing
from stafette.cli.shell.on_session import leave
from stafette.cli.shell.state import Need, State, place
from stafette.client.aio import Client
from stafette.errors import StafetteError, Unavailable

Answer = TypeVar("Answer")

USAGE = 2

PROBE_SECONDS = 1.0
"""How long to try, after an error, whether there is a broker again before we say that there is none."""


class Person(Protocol):
    """Who can be asked for what a line does not say."""

    async def ask_body(self) -> str:
        """A body of several lines, up to a lone dot."""

    async def ask_secret(self) -> str | None:
        """A secret, which is not shown; None where nobody can be asked."""


class Conversation:
    """Does what lines say. How they come, and how errors are shown, is the affair of its owner."""

    def __init__(self, state: State, person: Person, *, connect_when_needed: bool = False) -> None:
        self.state = state
        self._person = person
        self._to_connect = connect_when_needed
        self._asking = 0.0
        self._timed = False

    @property
    def client(self) -> Client:
        """The connection."""
        assert self.state.client is not None
        return self.state.client

    async def ask_body(self) -> str:
        """Ask the person, whose time is not the command's."""
        return await self._without_timing(self._person.ask_body())

    async def ask_secret(self) -> str | None:
        """Ask the person, whose time is not the command's."""
        return await self._without_timing(self._person.ask_secret())

    async def _without_timing(self, asking: Coroutine[Any, Any, Answer]) -> Answer:
        began = time.perf_counter()
        try:
            return await asking
        finally:
            self._asking += time.perf_counter() - began

    async def do(self, text: str) -> None:
        """Do what a line says; raises what went wrong, as an error of ours."""
        self._timed = False
        drop_if_over(self.state)
        line = parse(text)
        if line is None:
            return
        command = find(line.command)
        if self._to_connect and command.needs:
            self._to_connect = False
            if Need.CONNECTED in command.needs:
                await connect_to(self)
        self._timed = self.state.timing
        began, self._asking = time.perf_counter(), 0.0
        try:
            if self.state.away and Need.CONNECTED in command.needs and command.name != "disconnect":
                await self._return()
            await command(self, line)
        except Unavailable as error:
            if self.state.client is None or self.state.away or await self._reachable():
                raise
            self.state.away = True
            raise Unavailable(f"{error}; the next command tries again") from error
        finally:
            self.state.took = time.perf_counter() - began - self._asking

    def tell_time(self) -> None:
        """How long the last command took, if that is wanted: for after its result, or its error."""
        if self._timed and self.state.timing and self.state.took is not None:
            show.aside(f"time: {self.state.took * 1000:.1f} ms")

    async def _reachable(self) -> bool:
        """Whether there is a broker: Unavailable may be the database alone, or another broker serves us already."""
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                await self.client.ping()
        except (StafetteError, TimeoutError):
            return False
        return True

    async def _return(self) -> None:
        """Continue the session, with the lease that may belong to it; who knows that nobody is there waits less."""
        if not await self._reachable():
            raise Unavailable(
                f"no broker can be reached at {place(self.state.url or '')}; `disconnect` to go elsewhere"
            )
        self.state.away = False

    async def end(self) -> None:
        """Give back what is held, and hang up."""
        await leave(self)


def exit_code(error: Exception) -> int:
    """What a script ends with when this went wrong."""
    if isinstance(error, Nothing):
        return error.exit_code
    if isinstance(error, Usage):
        return USAGE
    return exits.exit_code(error) if isinstance(error, StafetteError) else exits.ERROR


def sentence(error: Exception) -> str:
    """What to say about it, in one line."""
    if isinstance(error, StafetteError):
        return str(error)
    return f"{type(error).__name__}: {' '.join(str(error).split())}; --debug shows where"
