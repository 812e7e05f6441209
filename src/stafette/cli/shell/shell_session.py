"""A session of the shell: runs lines on one connection, opens and closes it, and notices a lost broker."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

import typer

from stafette import settings
from stafette.cli import exits
from stafette.cli.broker_link import DEFAULT_URL, address, default_names
from stafette.cli.connection_log import show_connection_log
from stafette.cli.current_session import Kind, current_session, use_session
from stafette.cli.output import escape_controls
from stafette.cli.shell import show
from stafette.cli.shell.grammar import ALIASES, Line, Usage, read, split
from stafette.cli.shell.state import State, broker_name, needs_connection, unmet_need
from stafette.client import aio, sync
from stafette.client.sync import Client
from stafette.errors import AlreadyOnline, NotAuthenticated, StafetteError, Unavailable
from stafette.model import Message, Mode

Answer = TypeVar("Answer")

REQUEST_SECONDS = 10.0
"""Timeout of a request: a person does not wait longer for a broker that does not answer."""

PROBE_SECONDS = 1.0
"""Timeout of a check whether the broker answers: after an error, and for the names that Tab completes."""


class Prompter(Protocol):
    """Asks the person for what a line does not contain."""

    def ask_body(self) -> str:
        """A body of several lines, up to a line with only a dot."""

    def ask_secret(self) -> str | None:
        """A secret, which is not shown; None if there is no person to ask."""


class ShellSession:
    """Runs commands on one connection at a time, and keeps the state between them. The caller shows the errors."""

    def __init__(self, state: State, prompter: Prompter, root: Any, *, connect_on_demand: bool = False) -> None:
        self.state = state
        self.root = root
        self._prompter = prompter
        self._connect_on_demand = connect_on_demand
        self._prompt_seconds = 0.0
        self._is_timed = False

    # Called by commands

    @property
    def client(self) -> Client:
        """The open connection."""
        assert self.state.client is not None
        return self.state.client

    def names(self, kind: Kind) -> list[str]:
        """The names of all queues or clients; none if the broker does not answer in time."""
        try:
            if kind == "queue":
                return [queue.name for queue in sync.run_within(self.client, PROBE_SECONDS, aio.Client.queues)]
            return [client.name for client in sync.run_within(self.client, PROBE_SECONDS, aio.Client.clients)]
        except (StafetteError, TimeoutError):
            return []

    def ask_body(self) -> bytes:
        """Ask for a body; the time for typing it does not count as time of the command."""
        return self._without_timing(self._prompter.ask_body).encode(errors="surrogateescape")

    def show_message(self, message: Message) -> None:
        """Print a line about the message, and its body."""
        print(show.format_head(message))
        print(show.format_body(message.body))

    def report(self, detail: str) -> None:
        """Print a remark for the person."""
        show.remark(escape_controls(detail))

    def default_queue(self, sender: str | None, context: int | None) -> str | None:
        """Where to read if the line names no queue: any queue with a sender or a context, else the personal queue."""
        return f"@{self.client.name}" if sender is None and context is None else None

    def _without_timing(self, ask: Callable[[], Answer]) -> Answer:
        started = time.perf_counter()
        try:
            return ask()
        finally:
            self._prompt_seconds += time.perf_counter() - started

    # Lines

    def read(self, words: list[str]) -> Line:
        """Parse the words of a line."""
        return read(words, self.root)

    def possible_commands(self) -> list[str]:
        """The names of the commands that are possible now, and of their aliases."""
        names = [*self.root.commands, *ALIASES]
        return [name for name in names if unmet_need(self.read([name]).path, self.state) is None]

    def run(self, text: str) -> None:
        """Run a line; raises its error."""
        self._is_timed = False
        self.drop_lost_lease()
        if not (words := split(text)):
            return
        line = self.read(words)
        if self._connect_on_demand and needs_connection(line.path) is not None:
            self._connect_on_demand = False
            if needs_connection(line.path):
                self.connect()
        self._is_timed = self.state.timing
        started, self._prompt_seconds = time.perf_counter(), 0.0
        try:
            self._run(line)
        except Unavailable as error:
            if self.state.client is None or self.state.is_unreachable or self._is_reachable():
                raise
            self.state.is_unreachable = True
            raise Unavailable(f"{error}; the next command tries again") from error
        finally:
            self.state.last_seconds = time.perf_counter() - started - self._prompt_seconds

    def _run(self, line: Line) -> None:
        if self.state.is_unreachable and needs_connection(line.path) and line.name != "disconnect":
            self._resume()
        if reason := unmet_need(line.path, self.state):
            raise Usage(f"{line.name} is not possible now: {reason}")
        with use_session(self), self.root.make_context("", [*line.path, *line.arguments]) as context:
            try:
                self.root.invoke(context)
            except typer.Exit as end:  # after --help
                if end.exit_code:
                    raise
        sys.stdout.flush()  # results of a script may be read at once, and the next one may be bytes

    def print_time(self) -> None:
        """Print how long the last command took, if timing is on; call it after the result or the error."""
        if self._is_timed and self.state.timing and self.state.last_seconds is not None:
            show.aside(f"time: {self.state.last_seconds * 1000:.1f} ms")

    # The connection

    def connect(self, url: str | None = None, name: str | None = None, mode: Mode | None = None) -> None:
        """Connect; defaults are the last connection, else the options of the shell."""
        show_connection_log()
        state, start = self.state, self.state.start
        current = settings.load(url=start.url, name=start.name, secret=start.secret, data=start.data)
        target = url or state.url or address(start.url, start.data)
        requested = mode or start.mode
        preferred = name or state.name or current.name
        # A default name may be online elsewhere by now, then the next one is tried; a chosen name is not replaced.
        uses_default_name = name is None and current.name is None
        names = [*([preferred] if preferred else []), *(default_names() if uses_default_name else [])]
        if current.secret and current.name:
            state.secrets.setdefault(current.name, current.secret)
        client = self._connect_first(target, names, requested, None if current.name else current.secret)
        try:
            # A client that is registered as read-only stays so, whatever mode it requests.
            registered = client.client(client.name).mode
        except BaseException:
            client.close()
            raise
        state.connected(client, target, "full" if registered == requested == "full" else "read-only")

    def _connect_first(self, url: str, names: Iterable[str], mode: Mode, secret: str | None) -> Client:
        refusal: AlreadyOnline | None = None
        for name in names:
            try:
                return self._log_in(url, name, mode, secret)
            except AlreadyOnline as error:
                refusal = refusal or error
        assert refusal is not None
        raise refusal

    def _log_in(self, url: str, name: str, mode: Mode, secret: str | None) -> Client:
        """Connect under a name; if its secret is missing or wrong, ask for it once. A secret belongs to one name."""
        secrets = self.state.secrets
        try:
            return sync.connect(url, name=name, mode=mode, secret=secrets.get(name, secret), timeout=REQUEST_SECONDS)
        except NotAuthenticated:
            answer = self._without_timing(self._prompter.ask_secret)
            if not answer:
                raise
        client = sync.connect(url, name=name, mode=mode, secret=answer, timeout=REQUEST_SECONDS)
        secrets[name] = answer
        return client

    def leave(self) -> None:
        """Give the held message back, and close the connection if there is one."""
        self._return_held_message()
        client = self.state.client
        self.state.disconnected()
        if client is not None:
            client.close()

    def urls(self) -> list[str]:
        """URLs to suggest for `connect`."""
        return list(dict.fromkeys([self.state.url or DEFAULT_URL, DEFAULT_URL]))

    def _is_reachable(self) -> bool:
        """Whether a broker answers: after Unavailable it may be only the database, or another broker has taken over."""
        try:
            sync.run_within(self.client, PROBE_SECONDS, aio.Client.ping)
        except (StafetteError, TimeoutError):
            return False
        return True

    def _resume(self) -> None:
        """Continue the session, with its lease, if a broker answers; else fail soon, without the long timeout."""
        if not self._is_reachable():
            name = broker_name(self.state.url or "")
            raise Unavailable(f"no broker is reachable at {name}; to use another one, `disconnect` and `connect`")
        self.state.is_unreachable = False

    # The lease

    def _return_held_message(self) -> None:
        """Before leaving: other readers should not have to wait until the lease runs out."""
        held, self.state.held_lease = self.state.held_lease, None
        if held is None or held.seconds_left <= 0:
            return
        message_id, queue = held.message.id, escape_controls(held.message.queue)
        try:
            if self.state.is_unreachable:
                raise Unavailable("no broker is reachable")
            held.lease.nack()
        except StafetteError:
            show.warn(f"message {message_id} could not be given back; it returns to {queue} when its lease runs out")
        else:
            show.warn(f"message {message_id} was held and is given back to {queue}")

    def drop_lost_lease(self) -> None:
        """Warn once that the lease has run out, and forget it."""
        held = self.state.held_lease
        if held is not None and not self.state.holds_lease:
            self.state.held_lease = None
            show.warn(
                f"the lease on message {held.message.id} ran out; it is back in {escape_controls(held.message.queue)}"
            )


def current() -> ShellSession:
    """The session in which the command runs."""
    session = current_session()
    assert session is not None
    return session


def exit_code(error: Exception) -> int:
    """The exit code of a script that ends with this error."""
    if isinstance(error, typer.TyperException):
        return error.exit_code
    return exits.exit_code(error) if isinstance(error, StafetteError) else exits.ERROR


def describe(error: Exception) -> str:
    """The text of an error, in one line."""
    if isinstance(error, exits.NoMessage):
        message = f"message in {error.queue}" if error.queue else "matching message"
        return f"no {message} within {error.wait:g} seconds" if error.wait else f"no {message}"
    if isinstance(error, typer.TyperException):
        return " ".join(error.format_message().split()).removesuffix(".")
    if isinstance(error, StafetteError):
        return str(error)
    return f"{type(error).__name__}: {' '.join(str(error).split())}; --debug shows where"
