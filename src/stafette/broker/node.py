"""A broker node: it lets clients in, puts their requests in order, and gives each its answer.

Everything here runs on one event loop and never waits: what takes time is in the engine (the database), in the parking
(reads that wait for a message) or in a task of its own (a hello).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Coroutine

from stafette.broker import reception
from stafette.broker.bell import Bell
from stafette.broker.connection import Connection
from stafette.broker.engine import Engine, Pending
from stafette.broker.figures import Figures
from stafette.broker.limits import BROKER_LEASE_SECONDS, GREETING_SECONDS, Limits
from stafette.broker.operations import Operations
from stafette.broker.orders import obey
from stafette.broker.parking import ANYWHERE, Parking
from stafette.broker.session import Session, State
from stafette.broker.tracing import Tracing
from stafette.database.store import Store
from stafette.errors import (
    AlreadyOnline,
    InternalError,
    InvalidRequest,
    NotAuthenticated,
    Overloaded,
    PermissionDenied,
    ServerFull,
    StafetteError,
    Unavailable,
)
from stafette.protocol import messages as wire

log = logging.getLogger(__name__)

CHANGES = (
    wire.Send, wire.Receive, wire.Lease, wire.Ack, wire.Nack, wire.Extend, wire.CreateQueue, wire.DeleteQueue,
    wire.Purge, wire.DeleteClient,
)  # fmt: skip
WAITS = (wire.Receive, wire.Peek, wire.Lease)
_LEAVING = "the broker is shutting down; nothing has happened, try another"
_DISMISSED = "an operator has ended this session; nothing has happened, connect again"


class Node:
    """One broker process's state."""

    def __init__(
        self,
        store: Store,
        limits: Limits,
        *,
        name: str,
        require_secrets: bool = False,
        tracing: Tracing | None = None,
    ) -> None:
        self.store = store
        self.limits = limits
        self.name = name
        self.url = ""
        """Where clients find it, once it listens."""
        self.stop: Callable[[], None] | None = None
        """Lets the process drain and end, if it is ours to end."""
        self.broker = 0
        self.draining = False
        self.connections: set[Connection] = set()
        self.sessions: dict[int, Session] = {}
        self.refusals: dict[str, int] = {}
        self.figures = Figures()
        self.tracing = tracing
        self.parking = Parking(retry=self._retry, give_up=self._give_up)
        self.engine = Engine(
            connections=limits.connections,
            batch=limits.batch,
            deliver=self._deliver,
            figures=self.figures,
            tracing=tracing,
        )
        self.bell: Bell | None = None
        self._operations = Operations(store, arrived=self.arrived)
        self._require_secrets = require_secrets
        self._held = 0
        self._owing: dict[Connection, float] = {}
        self._nobody_here = asyncio.Event()
        self._nobody_here.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._listening: asyncio.Task[None] | None = None
        self._left: list[tuple[int, int]] = []

    async def join(self) -> None:
        """Report for duty in the database."""
        self.broker = await self.store.join_broker(self.name, seconds=BROKER_LEASE_SECONDS)
        self.bell = Bell(
            self.store,
            self.broker,
            self.parking,
            besides={f"stafette_orders_{self.broker}": lambda order: obey(order, self)},
        )
        if self._listening:
            self._listening.cancel()
        self._listening = asyncio.create_task(self.bell.serve())

    async def give_up_lost_sessions(self) -> None:
        """Hang up on clients whose name another broker has taken in while this one was away."""
        ours = await self.store.broker_sessions(self.broker)
        for session in [session for session in self.sessions.values() if ours.get(session.client) != session.token]:
            log.warning("client %s has been taken in elsewhere", session.name)
            session.connection.abort()

    # Connections

    def connected(self, connection: Connection) -> None:
        """A connection is there, and owes us a hello."""
        self.connections.add(connection)
        self._nobody_here.clear()
        self._owing[connection] = time.monotonic()

    def disconnected(self, connection: Connection) -> None:
        """A connection is gone: free its name."""
        self.connections.discard(connection)
        if not self.connections:
            self._nobody_here.set()
        self._owing.pop(connection, None)
        session = connection.session
        session.step(State.CLOSED)
        if self.sessions.get(session.client) is session:
            del self.sessions[session.client]
            self._release(session)
        self._held -= len(session.backlog or ())
        session.backlog = None
        self.parking.forget(session)

    def owes(self, connection: Connection, something: bool, *, anew: bool) -> None:
        """Remember since when a connection has owed us a hello, the end of a frame, or the reading of its answers."""
        if something:
            if anew:
                self._owing[connection] = time.monotonic()
            else:
                self._owing.setdefault(connection, time.monotonic())
        elif connection in self._owing and connection.session.state in (State.GREETING, State.OPEN):
            del self._owing[connection]

    def drop_debtors(self) -> None:
        """Hang up on connections that have owed us something for too long."""
        now = time.monotonic()
        for connection in [owing for owing, since in self._owing.items() if since < now - GREETING_SECONDS]:
            if connection.keeps_up():
                self._owing[connection] = now
            else:
                self._refused("slow reader" if connection.clogged else "too slow")
                connection.abort()

    def _release(self, session: Session) -> None:
        """Take a client offline; those who leave in the same turn of the loop go together."""
        if not self._left:
            self._spawn(self._release_left())
        self._left.append((session.client, session.token))

    async def _release_left(self) -> None:
        await asyncio.sleep(0)
        left, self._left = self._left, []
        try:
            await self.store.release_sessions(left)
        except StafetteError as error:  # their names come free when the broker's next session takes them
            log.warning("could not take %d clients offline: %s", len(left), error)

    # Requests

    def accept(self, session: Session, request: wire.Request) -> None:
        """Take a request on, or say at once why not."""
        match session.state:
            case State.OPEN if session.in_flight < self.limits.in_flight_per_client:
                if self.engine.outstanding + self._held >= self.limits.in_flight:
                    self._refuse(session, request, Overloaded("the broker has too much to do; try again later"))
                elif session.mode != "full" and isinstance(request, CHANGES):
                    self._refuse(
                        session, request, PermissionDenied(f"client {session.name} is read-only; it may only look")
                    )
                elif isinstance(request, wire.Hello):
                    self._refuse(session, request, InvalidRequest("this session has said hello already"))
                else:
                    self._enqueue(session, request)
            case State.OPEN:
                self._refuse(
                    session, request, Overloaded("too many requests of this client are under way; read answers first")
                )
            case State.GREETING if session.in_flight < self.limits.in_flight_per_client:
                self._enqueue(session, request)  # looked at when we know who it is
            case State.NEW if isinstance(request, wire.Hello):
                session.step(State.GREETING)
                self._spawn(self._greet(session, request))
            case State.NEW:
                self._refuse(session, request, NotAuthenticated("say hello first"))
                session.step(State.LEAVING)
                session.connection.close()
            case State.LEAVING if self._bidden(session) and isinstance(request, wire.Bye):
                self._enqueue(session, request)
            case State.LEAVING if self._bidden(session):
                self._refused("Goodbye")
                self._answer(session, request, self._goodbye(request.id))
            case State.LEAVING:
                self._refuse(session, request, Unavailable(_LEAVING))
            case _:
                self._refuse(session, request, Overloaded("wait for the welcome"))

    def _enqueue(self, session: Session, request: wire.Request) -> None:
        if session.backlog is None:
            session.backlog = deque()
        session.in_flight += 1
        self._held += 1
        session.backlog.append(request)

    def _refuse(self, session: Session, request: wire.Request, error: StafetteError) -> None:
        self._refused(type(error).__name__)
        self._answer(session, request, wire.failure(request.id, error))

    def _refused(self, why: str) -> None:
        self.refusals[why] = self.refusals.get(why, 0) + 1

    def proceed(self, session: Session) -> None:
        """Give the engine the session's next run, unless one is under way: consecutive requests that combine."""
        if session.connection.clogged and session.state is State.OPEN:
            return
        backlog = session.backlog
        while backlog and not session.under_way and session.state in (State.OPEN, State.LEAVING):
            first = backlog.popleft()
            if isinstance(first, wire.Echo):
                self._held -= 1
                self._settle(session, first, wire.Echoed(first.id, first.payload))
                continue
            if isinstance(first, wire.Cancel):
                self._held -= 1
                self.parking.cancel(session, first.request)
                self._settle(session, first, wire.Done(first.id))
                continue
            now = time.monotonic()
            operation = self._operations.of(first)
            run = [Pending(session, first, now)]
            read: dict[str | None, object] = {}
            alone = not backlog or not operation.combines(read, first)
            while (
                not alone
                and backlog
                and len(run) < self.limits.batch
                and self._operations.of(backlog[0]) is operation
                and operation.combines(read, backlog[0])
            ):
                run.append(Pending(session, backlog.popleft(), now))
            self._held -= len(run)
            session.under_way = len(run)
            for pending in run if isinstance(first, WAITS) else ():
                if isinstance(pending.request, WAITS) and pending.request.wait:
                    self.parking.trying(pending)
            self.engine.submit(operation, run)

    def _deliver(self, pending: Pending, answer: wire.Answer) -> None:
        """Answer a request; a read that found nothing and may wait is parked instead."""
        session, request = pending.session, pending.request
        tried_before = pending.until > 0
        if isinstance(answer, wire.Sent):
            self._announce(session, request)
        missed = isinstance(request, WAITS) and bool(request.wait) and self.parking.tried(pending)
        if isinstance(request, WAITS) and request.wait and _found_nothing(answer):
            parked = self._park(pending, request, again=missed)
            if self._bidden(session):
                answer = self._goodbye(request.id)
        else:
            parked = False
        if not parked:
            if tried_before:
                self.parking.settled(pending)
                if session.state is State.CLOSED and isinstance(request, WAITS):
                    self.parking.wake_all([request.selection.queue or ANYWHERE])  # others may have what woke it
            self._settle(session, request, answer)
            if _ends_session(session, request, answer):
                self._end(session)
        if not tried_before:
            session.under_way -= 1
            if not session.under_way:
                self.proceed(session)

    def _end(self, session: Session) -> None:
        """The client has left: what it asked for after that is not done."""
        if self.sessions.get(session.client) is session:
            del self.sessions[session.client]
        session.dismissed = False
        if session.state is State.OPEN:
            session.step(State.LEAVING)
        backlog, session.backlog = session.backlog or (), None
        self._held -= len(backlog)
        for request in backlog:
            self._refuse(session, request, NotAuthenticated("this session has ended; say hello again"))
        session.connection.close()

    def _announce(self, session: Session, request: wire.Request) -> None:
        """Tell whoever waits for what has just been sent."""
        assert isinstance(request, wire.Send)
        for draft in request.drafts:
            for queue in draft.queues:
                receiver = queue[1:] if queue.startswith("@") else draft.receiver
                self.parking.wake(queue, sender=session.name, receiver=receiver, context=draft.context)
                if self.bell:
                    self.bell.sent(queue)

    def arrived(self, queue: str) -> None:
        """There is something new in a queue, we do not know for whom."""
        self.parking.wake_all([queue])
        if self.bell:
            self.bell.sent(queue)

    def _park(self, pending: Pending, request: wire.Receive | wire.Peek | wire.Lease, *, again: bool) -> bool:
        """Let a read wait; False when it has waited long enough or nobody is waiting for it."""
        now = asyncio.get_running_loop().time()
        if not pending.until:
            pending.until = now + (request.wait or 0.0)
        if pending.until <= now or pending.session.state is not State.OPEN:
            return False
        if again:
            self.parking.try_again(pending)
            return True
        self.parking.park(pending, request.selection.queue)
        if self.bell:
            self.bell.parked(request.selection.queue)
        return True

    def _retry(self, pending: Pending) -> None:
        if self.tracing is not None:
            self.tracing.woken(pending)
        self.engine.submit(self._operations.of(pending.request), [pending])

    def _give_up(self, pending: Pending) -> None:
        """The read's time is up: there is nothing. Or the broker's is: another may have it wait on."""
        if self.tracing is not None:
            self.tracing.woken(pending)
        nothing = wire.Leases if isinstance(pending.request, wire.Lease) else wire.Messages
        asked = pending.request.id
        answer = self._goodbye(asked) if self._bidden(pending.session) else nothing(asked, [])
        self._settle(pending.session, pending.request, answer)

    def _settle(self, session: Session, request: wire.Request, answer: wire.Answer) -> None:
        """Give a request that was taken on its answer."""
        session.in_flight -= 1
        self.figures.answer(request, answer)
        self._answer(session, request, answer)

    def _answer(self, session: Session, request: wire.Request, answer: wire.Answer) -> None:
        if self.tracing is None:
            session.answer(answer)
        else:
            self.tracing.answer(session, request, answer)

    # Hellos

    async def _greet(self, session: Session, hello: wire.Hello) -> None:
        try:
            welcome = await self._welcome(session, hello)
        except StafetteError as error:
            self._refuse(session, hello, error)
            session.connection.close()
        except Exception:
            log.exception("a hello failed")
            self._refuse(session, hello, InternalError("the broker failed; its log says why"))
            session.connection.close()
        else:
            session.answer(welcome)
            waited, session.backlog, session.in_flight = session.backlog or (), None, 0
            self._held -= len(waited)
            for request in waited:
                self.accept(session, request)
            self.proceed(session)

    async def _welcome(self, session: Session, hello: wire.Hello) -> wire.Welcome:
        reception.check(hello)
        if self.draining:
            raise Unavailable(_LEAVING)
        if len(self.sessions) >= self.limits.clients:
            raise ServerFull(f"the broker serves its limit of {self.limits.clients} clients; try another, or later")
        identity = await reception.identify(hello, self.store, require_secrets=self._require_secrets)
        [token] = await self.store.take_sessions(
            [identity.id], self.broker, resumed=[hello.resume] if hello.resume else []
        )
        if token is None:
            raise AlreadyOnline(f"client {hello.name} has a live session; end that one first")
        session.client, session.token, session.name = identity.id, token, identity.name
        session.mode = "full" if identity.mode == hello.mode == "full" else "read-only"
        session.timeout = hello.timeout
        if (older := self.sessions.pop(identity.id, None)) and not older.dismissed:
            older.connection.abort()  # it has been continued here; one that was dismissed still gets its answers
        if session.state is not State.GREETING or len(self.sessions) >= self.limits.clients:
            self._release(session)  # it hung up meanwhile, or others were faster
            raise ServerFull(f"the broker serves its limit of {self.limits.clients} clients; try another, or later")
        if self.draining:
            self._release(session)
            raise Unavailable(_LEAVING)
        self.sessions[identity.id] = session
        session.step(State.OPEN)
        session.connection.open_up(self.limits.frame)
        return wire.Welcome(
            hello.id,
            version=wire.VERSION,
            client=identity.id,
            mode=session.mode,
            broker=self.name,
            session=token,
            max_frame=self.limits.frame,
            max_in_flight=self.limits.in_flight_per_client,
        )

    # The end

    async def drain(self) -> None:
        """Answer what was accepted, refuse what comes after, and say goodbye."""
        self.draining = True
        self.parking.close()
        for session in list(self.sessions.values()):
            session.step(State.LEAVING)
            session.answer(self._goodbye(0))
            self.proceed(session)  # also what was held back because the client reads slowly
        while any(session.in_flight for session in self.sessions.values()):
            await self.engine.drained()
            await asyncio.sleep(0)

    def dismiss(self, client: int) -> bool:
        """End a client's session: it gets its answers, and then has to hang up soon; False when it is not here."""
        session = self.sessions.get(client)
        if session is None or session.state is not State.OPEN:
            return False
        session.step(State.LEAVING)
        session.dismissed = True
        session.answer(self._goodbye(0))
        self.parking.send_away(session)
        self.proceed(session)  # also what was held back because the client reads slowly
        self.owes(session.connection, True, anew=True)
        return True

    def _bidden(self, session: Session) -> bool:
        """Whether a session has been said goodbye to, or is about to: it may ask elsewhere what it asks now."""
        return self.draining or session.dismissed

    def _goodbye(self, request: int) -> wire.Goodbye:
        return wire.Goodbye(request, _LEAVING if self.draining else _DISMISSED)

    async def everybody_gone(self) -> None:
        """Wait until no connection is left."""
        await self._nobody_here.wait()

    async def leave(self) -> None:
        """Sign off in the database; every session ends with this."""
        for connection in list(self.connections):
            connection.close()
        if self._listening:
            self._listening.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        try:
            await self.store.leave_broker(self.broker)
        except StafetteError as error:
            log.warning("could not sign off, the lease will run out instead: %s", error)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _ends_session(session: Session, request: wire.Request, answer: wire.Answer) -> bool:
    """Whether the client has left, or has deleted itself."""
    leaves = isinstance(request, wire.Bye) or (
        isinstance(request, wire.DeleteClient) and request.client == session.name
    )
    return leaves and isinstance(answer, wire.Done)


def _found_nothing(answer: wire.Answer) -> bool:
    return (isinstance(answer, wire.Messages) and not answer.messages) or (
        isinstance(answer, wire.Leases) and not answer.leases
    )
