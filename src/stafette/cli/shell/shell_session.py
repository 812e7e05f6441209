"""The shell's session: runs a line on the open connection, opens and closes it, and notices when the broker is gone."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

import typer

from stafette import settings
from stafette.cli import exits
from stafette.cli.broker_link import DEFAULT_URL, address, default_names
from stafette.cli.current_session import Kind, current_session, within
from stafette.cli.output import harmless
from stafette.cli.shell import show
from stafette.cli.shell.grammar import ALIASES, Line, Usage, read, split
from stafette.cli.shell.state import State, broker_name, needs_connection, unmet
from stafette.client import aio, sync
from stafette.client.sync import Client
from stafette.errors import AlreadyOnline, NotAuthenticated, StafetteError, Unavailable
from stafette.model import Message, Mode

Answer = TypeVar("Answer")

REQUEST_SECONDS = 10.0
"""How long a person waits for a broker that does not answer, before being told so."""

PROBE_SECONDS = 1.0
"""How long to try whether there is a broker: after an error, and for the names that a Tab completes."""


class Person(Protocol):
    """Who can be asked for what a line does not say."""

    def ask_body(self) -> str:
        """A body of several lines, up to a lone dot."""

    def ask_secret(self) -> str | None:
        """A secret, which is not shown; None where nobody can be asked."""


class ShellSession:
    """One connection at a time, and what one command leaves for the next. Its owner shows the errors."""

    def __init__(self, state: State, person: Person, root: Any, *, connect_when_needed: bool = False) -> None:
        self.state = state
        self.root = root
        self._person = person
        self._to_connect = connect_when_needed
        self._asking = 0.0
        self._timed = False

    # What commands ask for

    @property
    def client(self) -> Client:
        """The open connection."""
        assert self.state.client is not None
        return self.state.client

    def names(self, kind: Kind) -> list[str]:
        """The names of all queues or clients; none when the broker does not answer soon."""
        try:
            if kind == "queue":
                return [queue.name for queue in sync.run_within(self.client, PROBE_SECONDS, aio.Client.queues)]
            return [client.name for client in sync.run_within(self.client, PROBE_SECONDS, aio.Client.clients)]
        except (StafetteError, TimeoutError):
            return []

    def ask_body(self) -> bytes:
        """The lines that the person types, whose time is not the command's."""
        return self._without_timing(self._person.ask_body).encode(errors="surrogateescape")

    def show_message(self, message: Message) -> None:
        """A line about it, and its body."""
        print(show.head(message))
        print(show.body(message.body))

    def report(self, detail: str) -> None:
        """Tell a person."""
        show.remark(harmless(detail))

    def default_queue(self, sender: str | None, context: int | None) -> str | None:
        """Where to read when no queue is named: anywhere with a sender or a context, else from the personal queue."""
        return f"@{self.client.name}" if sender is None and context is None else None

    def _without_timing(self, ask: Callable[[], Answer]) -> Answer:
        began = time.perf_counter()
        try:
            return ask()
        finally:
            self._asking += time.perf_counter() - began

    # Lines

    def read(self, words: list[str]) -> Line:
        """What words mean."""
        return read(words, self.root)

    def possible(self) -> list[str]:
        """The commands that can be given now, and the aliases among them."""
        names = [*self.root.commands, *ALIASES]
        return [name for name in names if unmet(self.read([name]).path, self.state) is None]

    def run(self, text: str) -> None:
        """Do what a line says; raises what went wrong."""
        self._timed = False
        self.drop_lost_lease()
        if not (words := split(text)):
            return
        line = self.read(words)
        if self._to_connect and needs_connection(line.path) is not None:
            self._to_connect = False
            if needs_connection(line.path):
                self.connect()
        self._timed = self.state.timing
        began, self._asking = time.perf_counter(), 0.0
        try:
            self._run(line)
        except Unavailable as error:
            if self.state.client is None or self.state.away or self._is_reachable():
                raise
            self.state.away = True
            raise Unavailable(f"{error}; the next command tries again") from error
        finally:
            self.state.took = time.perf_counter() - began - self._asking

    def _run(self, line: Line) -> None:
        if self.state.away and needs_connection(line.path) and line.name != "disconnect":
            self._return()
        if reason := unmet(line.path, self.state):
            raise Usage(f"{line.name} is not possible now: {reason}")
        with within(self), self.root.make_context("", [*line.path, *line.arguments]) as context:
            try:
                self.root.invoke(context)
            except typer.Exit as end:  # help was asked for
                if end.exit_code:
                    raise
        sys.stdout.flush()  # a script may be read while it goes on, and the next result may be bytes

    def tell_time(self) -> None:
        """How long the last command took, if that is wanted: for after its result, or its error."""
        if self._timed and self.state.timing and self.state.took is not None:
            show.aside(f"time: {self.state.took * 1000:.1f} ms")

    # The connection

    def connect(self, url: str | None = None, name: str | None = None, mode: Mode | None = None) -> None:
        """Connect; what is not said is as it was last, or else as the shell was called."""
        state, start = self.state, self.state.start
        chosen = settings.load(url=start.url, name=start.name, secret=start.secret, data=start.data)
        target = url or state.url or address(start.url, start.data)
        requested = mode or start.mode
        preferred = name or state.name or chosen.name
        # A name that was chosen for us may be taken by now; one that somebody chose is meant.
        is_free_choice = name is None and chosen.name is None
        names = [*([preferred] if preferred else []), *(default_names() if is_free_choice else [])]
        if chosen.secret and chosen.name:
            state.secrets.setdefault(chosen.name, chosen.secret)
        client = self._first_free(target, names, requested, None if chosen.name else chosen.secret)
        try:
            # Who was registered as read-only remains so, whatever it asks for.
            registered = client.client(client.name).mode
        except BaseException:
            client.close()
            raise
        state.connected(client, target, "full" if registered == requested == "full" else "read-only")

    def _first_free(self, url: str, names: Iterable[str], mode: Mode, secret: str | None) -> Client:
        taken: AlreadyOnline | None = None
        for name in names:
            try:
                return self._log_in(url, name, mode, secret)
            except AlreadyOnline as error:
                taken = taken or error
        assert taken is not None
        raise taken

    def _log_in(self, url: str, name: str, mode: Mode, secret: str | None) -> Client:
        """Connect under a name; whoever forgot its secret is asked for it, once. Nobody is given another's secret."""
        secrets = self.state.secrets
        try:
            return sync.connect(url, name=name, mode=mode, secret=secrets.get(name, secret), timeout=REQUEST_SECONDS)
        except NotAuthenticated:
            answer = self._without_timing(self._person.ask_secret)
            if not answer:
                raise
        client = sync.connect(url, name=name, mode=mode, secret=answer, timeout=REQUEST_SECONDS)
        secrets[name] = answer
        return client

    def leave(self) -> None:
        """Give back what is held, and hang up, if there is something to hang up."""
        self._give_back()
        client = self.state.client
        self.state.disconnected()
        if client is not None:
            client.close()

    def urls(self) -> list[str]:
        """Brokers that one may want to connect to."""
        return list(dict.fromkeys([self.state.url or DEFAULT_URL, DEFAULT_URL]))

    def _is_reachable(self) -> bool:
        """Whether there is a broker: Unavailable may be the database alone, or another broker serves us already."""
        try:
            sync.run_within(self.client, PROBE_SECONDS, aio.Client.ping)
        except (StafetteError, TimeoutError):
            return False
        return True

    def _return(self) -> None:
        """Continue the session, with the lease that may belong to it; who knows that nobody is there waits less."""
        if not self._is_reachable():
            where = broker_name(self.state.url or "")
            raise Unavailable(f"no broker can be reached at {where}; `disconnect` to go elsewhere")
        self.state.away = False

    # The lease

    def _give_back(self) -> None:
        """Before leaving: whoever waits for the message should not wait for the lease to run out."""
        held, self.state.held = self.state.held, None
        if held is None or held.seconds_left <= 0:
            return
        number, queue = held.message.id, harmless(held.message.queue)
        try:
            if self.state.away:
                raise Unavailable("nobody is there to take it")
            held.lease.nack()
        except StafetteError:
            show.warn(f"message {number} could not be given back; it returns to {queue} when its lease runs out")
        else:
            show.warn(f"message {number} was held and is given back to {queue}")

    def drop_lost_lease(self) -> None:
        """Tell once that a lease has run out, and forget it."""
        held = self.state.held
        if held is not None and not self.state.holding:
            self.state.held = None
            show.warn(f"the lease on message {held.message.id} ran out; it is back in {harmless(held.message.queue)}")


def current() -> ShellSession:
    """The session that the running command belongs to."""
    session = current_session()
    assert session is not None
    return session


def exit_code(error: Exception) -> int:
    """What a script ends with when this went wrong."""
    if isinstance(error, typer.TyperException):
        return error.exit_code
    return exits.exit_code(error) if isinstance(error, StafetteError) else exits.ERROR


def describe(error: Exception) -> str:
    """What to say about it, in one line."""
    if isinstance(error, exits.NoMessage):
        where = f"in {error.queue}" if error.queue else "like that"
        return f"no message came within {error.wait:g} seconds {where}" if error.wait else f"no message {where}"
    if isinstance(error, typer.TyperException):
        return " ".join(error.format_message().split()).removesuffix(".")
    if isinstance(error, StafetteError):
        return str(error)
    return f"{type(error).__name__}: {' '.join(str(error).split())}; --debug shows where"
