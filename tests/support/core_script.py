"""The broker's core as a script runs it: connections that only note what happens to them, and a clock of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stafette.broker.core.broker import Broker, Outcome
from stafette.broker.core.dispatcher import Batch
from stafette.broker.core.effects import (
    Abort,
    CheckSecret,
    Close,
    Open,
    OpenSessions,
    PauseReading,
    Proceed,
    ReleaseName,
    Reply,
    ResumeReading,
    SayGoodbye,
    Woken,
)
from stafette.broker.core.hellos import HelloOutcome, Opened, PendingHello
from stafette.broker.core.session import Session, State, Ticket
from stafette.broker.limits import Limits
from stafette.errors import AlreadyOnline, StafetteError
from stafette.model import Draft, Mode, Selection
from stafette.protocol import messages as wire


class ScriptedConnection:
    """Notes what the core wants done."""

    def __init__(self) -> None:
        self.session = Session(self)
        self.unsent = 0
        self.behind_hello: list[wire.Request] = []
        """What stays on the connection until the client is welcome."""
        self.answers: list[wire.Answer] = []
        self.goodbyes: list[str] = []
        self.opened = False
        self.reading = True
        self.closed = False
        self.aborted = False

    def open(self) -> None:
        self.opened = True
        self.reading = True

    def reply(self, request: wire.Request | None, answer: wire.Answer) -> None:
        assert request is None or request.id == answer.id
        self.answers.append(answer)

    def say_goodbye(self, reason: str) -> None:
        self.goodbyes.append(reason)

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True

    def take_answers(self) -> list[wire.Answer]:
        """The answers since the last time."""
        answers, self.answers = self.answers, []
        return answers


class Script:
    """A core, its clock, and what came of its effects."""

    def __init__(self, **limits: int) -> None:
        self.core = Broker(Limits(**limits), name="broker-1")
        self.now = 1000.0
        self.calls: list[list[PendingHello]] = []
        """Hellos that are in the database."""
        self.checks: list[tuple[PendingHello, str | None]] = []
        """Secrets that are being checked, with the stored hash."""
        self.released: list[tuple[int, int]] = []
        self.woken: list[Ticket] = []
        self._tokens = 0

    def connect(self) -> ScriptedConnection:
        """A connection that has said nothing yet."""
        connection = ScriptedConnection()
        self.core.connect(connection.session, self.now)
        return connection

    def open(self, name: str = "alice", *, client: int | None = None, mode: Mode = "full") -> ScriptedConnection:
        """A connection whose client is authenticated."""
        connection = self.connect()
        self.say(connection, wire.Hello(1, wire.VERSION, name))
        self.authenticate(connection, client=client, mode=mode)
        [welcome] = connection.take_answers()
        assert isinstance(welcome, wire.Welcome)
        return connection

    def authenticate(
        self, connection: ScriptedConnection, *, client: int | None = None, mode: Mode = "full", taken: bool = False
    ) -> None:
        """The database answers the one hello that is in a call; `taken`: its name has a session elsewhere."""
        [pending] = self.calls[0]
        assert pending.session is connection.session
        name = pending.hello.name
        error = AlreadyOnline(f"client {name} has a live session; end that one first")
        self.answer_hellos(error if taken else self.opened(name, client=client, mode=mode))

    def opened(self, name: str, *, client: int | None = None, mode: Mode = "full") -> Opened:
        """The database has opened a session."""
        self._tokens += 1
        return Opened(sum(name.encode()) if client is None else client, name, mode, self._tokens)

    def answer_hellos(self, *outcomes: HelloOutcome) -> None:
        """The call of the database is back; clients that are welcome go on with what they have sent."""
        hellos = self.calls.pop(0)
        self.core.answer_hellos(hellos, outcomes, self.now)
        self.flush()
        for pending in hellos:
            connection = _scripted(pending.session)
            if connection.opened and connection.behind_hello:
                requests, connection.behind_hello = connection.behind_hello, []
                self.say(connection, *requests)

    def check_secret(self, outcome: str | StafetteError) -> None:
        """The first of the secrets is checked."""
        self.core.secret_checked(self.checks.pop(0)[0], outcome, self.now)
        self.flush()

    def say(self, connection: ScriptedConnection, *requests: wire.Request, partial: bool = False) -> None:
        """Requests that arrive in one piece of data; `partial`: with the beginning of another."""
        for request in requests:
            if connection.session.state is State.AUTHENTICATING:
                connection.behind_hello.append(request)
            else:
                self.core.request(connection.session, request, self.now)
        self.core.received(connection.session, self.now, begun=int(partial), complete_frame=bool(requests))
        self.flush()

    def hang_up(self, connection: ScriptedConnection) -> None:
        """The client is gone."""
        self.core.close(connection.session, self.now)
        self.flush()

    def batches(self) -> list[Batch]:
        """All batches that go to the database now."""
        batches = []
        while batch := self.core.next_batch(self.now):
            batches.append(batch)
        self.flush()
        return batches

    def batch(self) -> Batch:
        """The one batch that goes to the database now."""
        [batch] = self.batches()
        return batch

    def complete(self, batch: Batch, *outcomes: Outcome) -> None:
        """The database is done with a batch: with these outcomes, or with the plainest for each request."""
        self.core.dispatcher.finished(batch)
        self.core.complete(batch, outcomes or [plain_outcome(ticket.request) for ticket in batch.tickets], self.now)
        self.flush()

    def work(self) -> None:
        """Let the database do all that there is to do, with the plainest outcomes."""
        while batches := self.batches():
            for batch in batches:
                self.complete(batch)

    def tick(self, seconds: float) -> None:
        """Let time pass, and reads whose time is up be answered."""
        self.now += seconds
        self.core.expire_reads(self.now)
        self.flush()

    def flush(self) -> None:
        """Carry out all effects."""
        while self.core.effects:
            for effect in self.core.take_effects():
                self._carry_out(effect)

    def _carry_out(self, effect: Any) -> None:
        match effect:
            case Reply(session, request, answer):
                _scripted(session).reply(request, answer)
            case Proceed(session):
                self.core.proceed(session, self.now)
            case SayGoodbye(session, reason):
                _scripted(session).say_goodbye(reason)
            case Open(session):
                _scripted(session).open()
            case PauseReading(session):
                _scripted(session).pause_reading()
            case ResumeReading(session):
                _scripted(session).resume_reading()
            case Close(session):
                _scripted(session).close()
            case Abort(session):
                _scripted(session).abort()
            case OpenSessions(hellos):
                self.calls.append(hellos)
            case CheckSecret(pending, stored):
                self.checks.append((pending, stored))
            case ReleaseName(client, token):
                self.released.append((client, token))
            case Woken(ticket):
                self.woken.append(ticket)
            case _:
                raise AssertionError(effect)


def _scripted(session: Session) -> ScriptedConnection:
    assert isinstance(session.connection, ScriptedConnection)
    return session.connection


def plain_outcome(request: wire.Request) -> Outcome:
    """What the database says when nothing is in its way and nothing in its queues."""
    match request:
        case wire.Send():
            return wire.Sent(request.id, [[1] for _ in request.drafts])
        case wire.Receive() | wire.Peek() | wire.Browse():
            return wire.Messages(request.id, [])
        case wire.Lease():
            return wire.Leases(request.id, [])
        case wire.ListQueues():
            return wire.Queues(request.id, [])
        case _:
            return wire.Done(request.id)


def send(number: int, queue: str = "jobs", **fields: Any) -> wire.Send:
    """A request that sends one message."""
    return wire.Send(number, [Draft((queue,), b"work", **fields)])


def receive(number: int, queue: str | None = "jobs", *, wait: float | None = None, **fields: Any) -> wire.Receive:
    """A request that reads."""
    return wire.Receive(number, Selection(queue, **fields), wait)


def ids(batch: Batch) -> list[int]:
    """The requests of a batch."""
    return [ticket.request.id for ticket in batch.tickets]


def kinds(answers: Sequence[wire.Answer]) -> list[str]:
    """What kinds of answers these are; for failures, what failed."""
    return [answer.name if isinstance(answer, wire.Failed) else type(answer).__name__ for answer in answers]
