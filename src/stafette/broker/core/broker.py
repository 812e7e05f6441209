"""The broker's core: it admits clients, keeps their requests in order, batches them, and answers each.

Every input appends to `effects`; the runtime takes and carries them out. An answer may come after its session has
closed. Replies are effects like all others. That costs a request 0.2 µs (docs/performance.md), but a client that stops
reading during a write cannot interrupt a decision.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stafette.broker.core.admission import Admission, hello_refusal
from stafette.broker.core.dispatcher import Batch, Dispatcher
from stafette.broker.core.effects import (
    Abort,
    CheckSecret,
    Close,
    Effect,
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
from stafette.broker.core.hellos import HelloOutcome, Hellos, Opened, PendingHello, SecretDue
from stafette.broker.core.idle_timeouts import IdleTimeouts
from stafette.broker.core.interests import Interests
from stafette.broker.core.large_frames import LargeFrames
from stafette.broker.core.operation import (
    GIVE_BACK,
    WAITS,
    ends_session,
    is_empty,
    operation_of,
    queue_of,
    seconds_to_wait,
)
from stafette.broker.core.session import Session, State, Ticket, session_number
from stafette.broker.core.waiting_reads import ANY_QUEUE, WaitingReads
from stafette.broker.limits import LARGE_FRAME, LARGE_FRAMES, Limits
from stafette.broker.metrics import Metrics
from stafette.errors import (
    NotAuthenticated,
    Overloaded,
    RequestTimeout,
    StafetteError,
    TryAgain,
    Unavailable,
)
from stafette.protocol import messages as wire
from stafette.protocol.request_size import request_bytes

Outcome = wire.Answer | StafetteError | None
"""What came of a request; None: the database did not come to this read, because others of its batch got much."""

_SHUTTING_DOWN = "the broker is shutting down; nothing has happened, try another broker"
_DISCONNECTED = "an operator has ended this session; nothing has happened, connect again"
_ENDED = "this session has ended; say hello again"
_NOT_STARTED = "the broker could not start on this in time; nothing has happened"


def _is_in_doubt(ticket: Ticket, outcome: Outcome) -> bool:
    """Whether a read may still be under way in the database: if it were repeated now, it could take other messages."""
    return (
        type(ticket.request) is wire.Receive
        and ticket.session.number is not None
        and isinstance(outcome, TryAgain)
        and outcome.outcome == "unknown"
    )


class Broker:
    """The state of one broker process, without I/O."""

    def __init__(self, limits: Limits, *, name: str, require_secrets: bool = False) -> None:
        self.limits = limits
        self.name = name
        self.require_secrets = require_secrets
        self.draining = False
        self.effects: list[Effect] = []
        self.connected: set[Session] = set()
        """Every connection's session, whatever its state."""
        self.sessions: dict[int, Session] = {}
        """Those that are open or leaving, by client."""
        self.metrics = Metrics()
        self.admission = Admission(limits)
        self.hellos = Hellos()
        self.dispatcher = Dispatcher(
            connections=limits.connections,
            batch=limits.batch,
            batch_bytes=limits.batch_bytes,
            metrics=self.metrics,
        )
        self.waiting = WaitingReads()
        self.large_frames = LargeFrames(LARGE_FRAMES)
        self.interests = Interests()
        self.idle_timeouts = IdleTimeouts()

    def take_effects(self) -> list[Effect]:
        """The effects of all inputs since the last call, in order."""
        effects, self.effects = self.effects, []
        return effects

    # Connections

    def connect(self, session: Session, now: float) -> None:
        """A connection is open, and has to say hello. If too many do not, the oldest gives way."""
        self.connected.add(session)
        self.idle_timeouts.await_hello(session, now)
        self.hellos.connect(session, now)
        self._give_way(self.hellos.surplus_silent(now))

    def _give_way(self, sessions: Iterable[Session]) -> None:
        for session in sessions:
            self.hellos.remove(session)
            self.admission.count_refusal("gave way")
            self.effects.append(Abort(session))

    def close(self, session: Session, now: float) -> None:
        """A connection is closed: release its client's name."""
        self.connected.discard(session)
        self._end_large_frame(session, now)
        self.idle_timeouts.stop(session)
        self.hellos.remove(session)
        if session.state is State.CLOSED:
            return  # it was cut off
        session.step(State.CLOSED)
        if self.sessions.get(session.client) is session:
            del self.sessions[session.client]
            self.effects.append(ReleaseName(session.client, session.token))
        self._drop_requests(session)

    def _drop_requests(self, session: Session) -> None:
        """Nobody waits for what has not been dispatched, or is parked."""
        self._discount(session.take_backlog())
        for ticket in self.waiting.forget(session):
            self.admission.bytes -= ticket.size

    def pause_writing(self, session: Session, unread: int, now: float) -> None:
        """A client does not keep up with its answers: take no more requests from it."""
        session.write_paused = True
        self.idle_timeouts.await_reading(session, unread, now)
        self.effects.append(PauseReading(session))

    def resume_writing(self, session: Session, now: float, *, partial: bool) -> None:
        """It has caught up. `partial`: whether the beginning of a frame has arrived."""
        session.write_paused = False
        waits = session in self.large_frames
        if not waits:
            self.effects.append(ResumeReading(session))
        self.idle_timeouts.caught_up(session, now, partial=partial and not waits)
        self.proceed(session, now)

    def received(self, session: Session, now: float, *, begun: int, complete_frame: bool) -> None:
        """All requests of a piece of data have been handed over: start on them.

        `begun`: the size of the frame with whose beginning it ends, or 0; `complete_frame`: whether it completed one.
        """
        self.proceed(session, now)
        self.idle_timeouts.received(session, now, partial=begun > 0, complete_frame=complete_frame)
        if complete_frame and self.large_frames.bytes:
            self._end_large_frame(session, now)
        if begun > LARGE_FRAME and not self.large_frames.begin(session, begun):
            if not session.write_paused:
                self.idle_timeouts.excuse(session)
            self.effects.append(PauseReading(session))

    def _end_large_frame(self, session: Session, now: float) -> None:
        if session in self.large_frames:
            self.effects.append(ResumeReading(session))
        for other in self.large_frames.end(session):
            if not other.write_paused:
                self.idle_timeouts.await_frame(other, now)
                self.effects.append(ResumeReading(other))

    def bound_unsent(self) -> None:
        """Disconnect the clients with the most unread bytes, until those of all clients are within their limit."""
        unsent = {session: session.connection.unsent for session in self.connected}
        total = sum(unsent.values())
        for session in sorted(unsent, key=unsent.__getitem__, reverse=True):
            if total <= self.limits.unsent:
                break
            total -= unsent[session]
            self.admission.count_refusal("slow reader")
            self.effects.append(Abort(session))

    def drop_idle(self, now: float) -> None:
        """Hang up on connections whose idle timeout has passed, and on the oldest of too many silent ones."""
        self._give_way(self.hellos.surplus_silent(now))
        for session in self.idle_timeouts.expired(now):
            self.admission.count_refusal("slow reader" if session.write_paused else "too slow")
            self.effects.append(Abort(session))

    def _hang_up(self, session: Session, now: float) -> None:
        """Close a connection after its last answer; the client must read it in time."""
        self.idle_timeouts.await_hang_up(session, now)
        self.effects.append(Close(session))

    # Requests

    def request(self, session: Session, request: wire.Request, now: float) -> None:
        """Accept a request, or refuse it at once with the reason."""
        match session.state:
            case State.OPEN:
                size = request_bytes(request)
                if refusal := self.admission.refusal(session, request, size):
                    self._refuse(session, request, refusal)
                else:
                    self._enqueue(session, request, size)
            case State.NEW if isinstance(request, wire.Hello):
                session.step(State.AUTHENTICATING)
                self._hello(session, request, now)
            case State.NEW:
                self._refuse(session, request, NotAuthenticated("say hello first"))
                self.hellos.remove(session)
                session.step(State.LEAVING)
                self._hang_up(session, now)
            case State.LEAVING if self._is_leaving(session) and isinstance(request, wire.Bye):
                self._enqueue(session, request, 0)
            case State.LEAVING if self._is_leaving(session):
                self.admission.count_refusal("Goodbye")
                self.effects.append(Reply(session, request, self._goodbye(request.id)))
            case State.LEAVING:
                self._refuse(session, request, NotAuthenticated(_ENDED))
            case _:
                self._refuse(session, request, Overloaded("wait for the welcome"))

    def fault(self, session: Session, error: wire.Undecodable, now: float) -> bool:
        """A client sent something that is not a request; False if the stream ends with it."""
        if error.request_id and session.state is not State.NEW:
            self.effects.append(Reply(session, None, wire.failure(error.request_id, error)))
            return True
        self.end_stream(session, error, now)
        return False

    def end_stream(self, session: Session, error: StafetteError, now: float) -> None:
        """The stream cannot be read any further: send the error, and hang up."""
        self.effects.append(Reply(session, None, wire.failure(0, error)))
        self._hang_up(session, now)

    def _enqueue(self, session: Session, request: wire.Request, size: int) -> None:
        session.enqueue(request, size)
        self.admission.active += 1
        self.admission.bytes += size

    def _discount(self, backlog: Sequence[Ticket]) -> None:
        """Requests were taken from a backlog: they no longer count."""
        self.admission.active -= len(backlog)
        self.admission.bytes -= sum(ticket.size for ticket in backlog)

    def _refuse(self, session: Session, request: wire.Request, error: StafetteError) -> None:
        self.admission.count_refusal(type(error).__name__)
        self.effects.append(Reply(session, request, wire.failure(request.id, error)))

    def proceed(self, session: Session, now: float) -> None:
        """Dispatch the session's next run, unless one is dispatched."""
        backlog = session.backlog
        if not backlog or (session.write_paused and session.state is State.OPEN):
            return
        while backlog and not session.run_size and session.state in (State.OPEN, State.LEAVING):
            first = backlog[0].request
            if type(first) is wire.Echo:
                self._answer_at_once(backlog.popleft(), wire.Echoed(first.id, first.payload))
            elif type(first) is wire.Cancel and (read := self.waiting.find(session, first.request)):
                self._cancel(read, backlog.popleft(), now)
            else:
                operation, run = session.next_run(self.limits.batch, self.limits.batch_bytes, now)
                if type(first) in WAITS:
                    for ticket in run:
                        if seconds_to_wait(ticket.request):
                            self.waiting.begin_try(ticket)
                self.dispatcher.submit(operation, run)

    def _cancel(self, read: Ticket, cancel: Ticket, now: float) -> None:
        """End the wait of a read. If it is in the database, what it takes there is given back when it has returned."""
        if self.waiting.cancel(read, now):
            self._give_up(read)
            self._answer_at_once(cancel, wire.Done(cancel.request.id))
        else:
            cancel.accepted_at = now
            read.cancelled_by = cancel
            read.session.run_size = 1
            self.admission.active -= 1

    def _answer_at_once(self, ticket: Ticket, answer: wire.Answer) -> None:
        self.admission.active -= 1
        self._settle(ticket, answer)

    def _settle(self, ticket: Ticket, answer: wire.Answer) -> None:
        """Answer an accepted request."""
        self._forget_size(ticket)
        self.metrics.answer(ticket.request, answer)
        self.effects.append(Reply(ticket.session, ticket.request, answer))

    def _forget_size(self, ticket: Ticket) -> None:
        """A request is no longer in flight."""
        session, size = ticket.session, ticket.size
        session.in_flight -= 1
        if size:
            session.in_flight_bytes -= size
            self.admission.bytes -= size

    # Batches

    def next_batch(self, now: float) -> Batch | None:
        """The next batch for the database, or None."""
        while batch := self.dispatcher.next_batch(now):
            for ticket in batch.late:
                self._finish(ticket, RequestTimeout(_NOT_STARTED, outcome="not done"), now)
            if batch.tickets:
                return batch
        return None

    def complete(self, batch: Batch, outcomes: Sequence[Outcome], now: float) -> None:
        """The outcomes of a batch, in its order. `dispatcher.finished` must have been called."""
        not_reached: list[Ticket] = []
        for ticket, outcome in zip(batch.tickets, outcomes, strict=True):
            if outcome is None:
                not_reached.append(ticket)
            else:
                self._finish(ticket, outcome, now)
        if not_reached:
            self._put_back(not_reached)

    def _put_back(self, tickets: Sequence[Ticket]) -> None:
        """The batch had all its bytes before it came to these reads: they are the next of their sessions, or try again.

        So a client that does not read its answers gets no more of them.
        """
        runs: dict[Session, list[Ticket]] = {}
        closed: set[str] = set()
        for ticket in tickets:
            self.dispatcher.outstanding -= 1
            if seconds_to_wait(ticket.request):
                self.waiting.end_try(ticket)
            if ticket.session.state is State.CLOSED:
                self._discount([ticket])
                self.waiting.settle(ticket)
                closed.add(queue_of(ticket.request) or ANY_QUEUE)
            elif ticket.deadline:
                self.admission.active -= 1
                self.waiting.retry(ticket)
                self._retry([ticket])
            else:
                runs.setdefault(ticket.session, []).append(ticket)
        for session, run in runs.items():
            session.put_back(run)
            session.run_size -= len(run)
            self.effects.append(Proceed(session))
        if closed:  # others may take what was locked for them
            self.wake_reads(closed)

    def _finish(self, ticket: Ticket, outcome: wire.Answer | StafetteError, now: float) -> None:
        """Answer a request that is back from the database; a read that got nothing waits if it may."""
        session, request = ticket.session, ticket.request
        answer = wire.failure(request.id, outcome) if isinstance(outcome, StafetteError) else outcome
        self.dispatcher.outstanding -= 1
        self.admission.active -= 1
        first_try = not ticket.deadline
        waits = False
        if type(answer) is wire.Sent:
            self._announce(session, request)
        elif type(request) in WAITS and seconds_to_wait(request):
            missed = self.waiting.end_try(ticket)
            if is_empty(answer):
                waits = self._wait_on(ticket, now, missed=missed)
                if not waits and self._is_leaving(session):
                    answer = self._goodbye(request.id)
            if ticket.cancelled_by is not None:
                if type(answer) is wire.Messages and session.number is not None:
                    answer = wire.Messages(request.id, [])  # what it has taken goes back; without a number it cannot
                self.admission.active += 1
                self.dispatcher.submit(GIVE_BACK, [ticket.cancelled_by])
        if not waits:
            if not first_try:
                self._end_wait(ticket)
            if isinstance(outcome, NotAuthenticated) and self._is_leaving(session):
                self._settle(ticket, self._goodbye(request.id))
            elif isinstance(outcome, NotAuthenticated) or _is_in_doubt(ticket, outcome):
                # The client says hello, which waits for such reads and bars them, and then repeats or cancels this one.
                self._forget_size(ticket)
                self._cut_off(session)
            else:
                self._settle(ticket, answer)
            if ends_session(session.name, request, answer):
                self._end_session(session, now)
        if first_try:
            session.run_size -= 1
            if session.backlog and not session.run_size:
                self.effects.append(Proceed(session))

    def _end_wait(self, ticket: Ticket) -> None:
        self.waiting.settle(ticket)
        if ticket.session.state is State.CLOSED:  # other reads may take the message that woke it
            self.wake_reads([queue_of(ticket.request) or ANY_QUEUE])

    def _end_session(self, session: Session, now: float) -> None:
        """The client has left: its later requests are refused."""
        if self.sessions.get(session.client) is session:
            del self.sessions[session.client]
        session.disconnecting = False
        if session.state is State.OPEN:
            session.step(State.LEAVING)
        backlog = session.take_backlog()
        self._discount(backlog)
        for ticket in backlog:
            self._refuse(session, ticket.request, NotAuthenticated(_ENDED))
        if session.state is not State.CLOSED:  # the client may have hung up without waiting for the answer
            self._hang_up(session, now)

    # Reads that wait

    def _wait_on(self, ticket: Ticket, now: float, *, missed: bool) -> bool:
        """Let a read wait; False if its time is up or its session is not open."""
        request = ticket.request
        if not ticket.deadline:
            ticket.deadline = now + seconds_to_wait(request)
        if ticket.deadline <= now or ticket.session.state is not State.OPEN:
            return False
        if missed:
            self.waiting.retry(ticket)
            self._retry([ticket])
        else:
            self.waiting.park(ticket)
            self.interests.parked(queue_of(request))
        return True

    def _announce(self, session: Session, request: wire.Request) -> None:
        """Wake the reads that wait for what was sent. A delayed message wakes reads when it becomes ready."""
        assert isinstance(request, wire.Send)
        for draft in request.drafts:
            if draft.delay:
                continue
            for queue in draft.queues:
                receiver = queue[1:] if queue.startswith("@") else draft.receiver
                self._retry(self.waiting.arrived(queue, sender=session.name, receiver=receiver, context=draft.context))
                self.interests.sent(queue)

    def arrived(self, queue: str) -> None:
        """Something is ready in a queue, for an unknown receiver."""
        self.wake_reads([queue])
        self.interests.sent(queue)

    def wake_reads(self, queues: Iterable[str] | None = None) -> None:
        """Let every read that waits for these queues, or for any, try again."""
        self._retry(self.waiting.wake_all(queues))

    def wake(self, tickets: Iterable[Ticket]) -> None:
        """Let these reads try again, those of them that still wait."""
        self._retry(self.waiting.wake(tickets))

    def expire_reads(self, now: float) -> None:
        """Answer the reads whose time is up."""
        for ticket in self.waiting.expire(now):
            self._give_up(ticket)

    def _retry(self, tickets: Iterable[Ticket]) -> None:
        for ticket in tickets:
            self.effects.append(Woken(ticket))
            self.admission.active += 1
            self.dispatcher.submit(operation_of(ticket.request), [ticket])

    def _give_up(self, ticket: Ticket) -> None:
        """Answer a parked read: with nothing, or with goodbye if its session ends, so that it can wait elsewhere."""
        self.effects.append(Woken(ticket))
        session, request = ticket.session, ticket.request
        answer: wire.Answer
        if self._is_leaving(session):
            answer = self._goodbye(request.id)
        elif type(request) is wire.Lease:
            answer = wire.Leases(request.id, [])
        else:
            answer = wire.Messages(request.id, [])
        self._settle(ticket, answer)

    # Hellos

    def _hello(self, session: Session, hello: wire.Hello, now: float) -> None:
        """Find out who it is. What the client sends behind its hello stays where it is until it is welcome."""
        if error := hello_refusal(hello, require_secret=self.require_secrets) or self._session_refusal():
            self._refuse_hello(session, hello, error, now)
        else:
            self.effects.append(PauseReading(session))
            self.hellos.gather(PendingHello(session, hello))
            self._advance_hellos()

    def _advance_hellos(self) -> None:
        if hellos := self.hellos.next_call():
            self.effects.append(OpenSessions(hellos))
        while check := self.hellos.next_check():
            self.effects.append(CheckSecret(*check))
        self._give_way(self.hellos.surplus_hellos())

    def _session_refusal(self) -> StafetteError | None:
        if self.draining:
            return Unavailable(_SHUTTING_DOWN, outcome="not done")
        return self.admission.session_refusal(len(self.sessions))

    def _refuse_hello(self, session: Session, hello: wire.Hello, error: StafetteError, now: float) -> None:
        self._refuse(session, hello, error)
        if session.state is State.AUTHENTICATING:
            self.hellos.remove(session)
            session.step(State.LEAVING)
            self._hang_up(session, now)

    def answer_hellos(self, hellos: Sequence[PendingHello], outcomes: Sequence[HelloOutcome], now: float) -> None:
        """A call is back, with the outcomes in its order."""
        self.hellos.call_ended()
        for pending, outcome in zip(hellos, outcomes, strict=True):
            if isinstance(outcome, Opened):
                self._open(pending, outcome, now)
            elif isinstance(outcome, StafetteError):
                self._refuse_hello(pending.session, pending.hello, outcome, now)
            else:
                self._await_check(pending, outcome, now)
        self._advance_hellos()

    def _await_check(self, pending: PendingHello, due: SecretDue, now: float) -> None:
        if pending.session.state is State.AUTHENTICATING:
            if refusal := self._session_refusal():
                self._refuse_hello(pending.session, pending.hello, refusal, now)
            else:
                self.hellos.await_check(pending, due.stored)

    def secret_checked(self, pending: PendingHello, outcome: str | StafetteError, now: float) -> None:
        """The secret of a hello agrees with this hash, or it is refused."""
        self.hellos.check_ended()
        session = pending.session
        if session.state is State.AUTHENTICATING:
            refusal = self._session_refusal() if isinstance(outcome, str) else outcome
            if refusal:
                self._refuse_hello(session, pending.hello, refusal, now)
            else:
                pending.secret = str(outcome)
                self.hellos.gather(pending)
        self._advance_hellos()

    def _open(self, pending: PendingHello, opened: Opened, now: float) -> None:
        """A client has a session, under a token with which it must be released in the end."""
        session, hello, client = pending.session, pending.hello, opened.client
        session.client, session.token, session.name = client, opened.token, opened.name
        session.number = session_number(hello.session)
        session.mode = opened.mode if hello.mode == "full" else "read-only"
        session.timeout = hello.timeout
        session.max_answer = hello.max_answer
        if (older := self.sessions.pop(client, None)) and not older.disconnecting:
            self._cut_off(older)  # its session continues here; one that an operator ended still gets its answers
        refusal = self._session_refusal()  # clients may have been admitted meanwhile
        if refusal or session.state is not State.AUTHENTICATING:
            self.effects.append(ReleaseName(client, opened.token))
            self._refuse_hello(session, hello, refusal or Unavailable("the client has hung up"), now)
            return
        self.sessions[client] = session
        session.step(State.OPEN)
        self.effects += [Open(session), Reply(session, hello, self._welcome(session, hello))]

    def _welcome(self, session: Session, hello: wire.Hello) -> wire.Welcome:
        return wire.Welcome(
            hello.id,
            version=wire.VERSION,
            client=session.client,
            mode=session.mode,
            broker=self.name,
            max_frame=self.limits.frame,
            max_in_flight=self.limits.in_flight_per_client,
            max_in_flight_bytes=self.limits.in_flight_bytes_per_client,
        )

    # The end

    def drain(self, now: float) -> None:
        """Answer accepted requests, refuse later ones, and say goodbye."""
        self.draining = True
        for pending in self.hellos.all_waiting():
            self._refuse_hello(pending.session, pending.hello, Unavailable(_SHUTTING_DOWN, outcome="not done"), now)
        for ticket in self.waiting.cancel_all():
            self._give_up(ticket)
        for session in list(self.sessions.values()):
            if session.state is State.OPEN:
                session.step(State.LEAVING)
            self.effects.append(SayGoodbye(session, _SHUTTING_DOWN))
            self._dismiss_backlog(session)
            self.proceed(session, now)

    def _dismiss_backlog(self, session: Session) -> None:
        """What was held back because the client reads slowly is not executed: it would not read the answers either."""
        if session.write_paused and not session.run_size:
            backlog = session.take_backlog()
            self._discount(backlog)
            for ticket in backlog:
                self.admission.count_refusal("Goodbye")
                self.effects.append(Reply(session, ticket.request, self._goodbye(ticket.request.id)))

    @property
    def drained(self) -> bool:
        """Whether all accepted requests of the remaining sessions are answered."""
        return not any(session.in_flight for session in self.sessions.values())

    def disconnect(self, client: int, token: int, now: float) -> bool:
        """End a session: the client gets its answers, and must then hang up in time; False if it is not here."""
        session = self.sessions.get(client)
        if session is None or session.token != token or session.state is not State.OPEN:
            return False
        session.step(State.LEAVING)
        session.disconnecting = True
        self.effects.append(SayGoodbye(session, _DISCONNECTED))
        for ticket in self.waiting.cancel_session(session, now):
            self._give_up(ticket)
        self._dismiss_backlog(session)
        self.proceed(session, now)
        self.idle_timeouts.await_hang_up(session, now)
        return True

    def evict(self, sessions: Iterable[Session], tokens: dict[int, int]) -> list[Session]:
        """Hang up on those of these sessions that go on elsewhere; `tokens` are those that this broker still holds."""
        lost = [session for session in sessions if tokens.get(session.client) != session.token]
        for session in lost:
            self._cut_off(session)
        return lost

    def end_moved(self, client: int, token: int) -> bool:
        """Hang up on a session that goes on at another broker; False if it is not here. One that is leaving gets its
        answers.
        """
        session = self.sessions.get(client)
        if session is None or session.token != token or session.state is not State.OPEN:
            return False
        self._cut_off(session)
        return True

    def _cut_off(self, session: Session) -> None:
        """Hang up on a session that goes on elsewhere. Nothing more is read for it, not even in this turn."""
        if session.state is State.CLOSED:
            return
        session.step(State.CLOSED)
        if self.sessions.get(session.client) is session:
            del self.sessions[session.client]
        self._drop_requests(session)
        self.effects.append(Abort(session))

    def _is_leaving(self, session: Session) -> bool:
        """Whether a session is told to leave, or soon will be: the client can repeat its requests elsewhere."""
        return self.draining or session.disconnecting

    def _goodbye(self, request_id: int) -> wire.Goodbye:
        return wire.Goodbye(request_id, _SHUTTING_DOWN if self.draining else _DISCONNECTED)
