"""The runtime: carries out the core's effects with asyncio: database calls, timers, authentication and replies.

Effects of one input are taken together and carried out in order. Anything that a connection reports meanwhile, such as
a client that does not read, is a separate input, whose effects follow.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from stafette.broker import authentication
from stafette.broker.authentication import Moved
from stafette.broker.core.broker import Broker, Outcome
from stafette.broker.core.dispatcher import Batch
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
from stafette.broker.core.hellos import HelloOutcome, PendingHello
from stafette.broker.core.session import Session, Ticket
from stafette.broker.limits import BROKER_LEASE_SECONDS, SECRETS_AT_ONCE, UNSENT_CHECK, Limits
from stafette.broker.notifications import Notifications
from stafette.broker.operations import Operations
from stafette.broker.tracing import Tracing
from stafette.database.store import Store
from stafette.errors import InternalError, StafetteError
from stafette.protocol import messages as wire

log = logging.getLogger(__name__)

REPEATED_LOG_SECONDS = 10.0
"""How long a failure that goes on is not logged again: a broker without a database fails many calls a second."""

_DEFECT = "the broker failed; see its log"


class Runtime:
    """One broker process."""

    def __init__(
        self,
        store: Store,
        limits: Limits,
        *,
        name: str,
        require_secrets: bool = False,
        tracing: Tracing | None = None,
    ) -> None:
        self.core = Broker(limits, name=name, require_secrets=require_secrets)
        self.store = store
        self.name = name
        self.url = ""
        """The URL for clients, once it listens."""
        self.stop: Callable[[], None] | None = None
        """Makes the process drain and end; None if the broker runs inside another program."""
        self.broker_id = 0
        """Its id in the database."""
        self.started_at = time.monotonic()
        self.tracing = tracing
        self.notifications: Notifications | None = None
        self._operations = Operations(store, answer_bytes=limits.answer, arrived=self.core.arrived)
        self._flushing = False
        self._unsent_checked_at = 0
        """What had been sent when unread bytes were last added up."""
        self._dispatch_scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._drained = asyncio.Event()
        self._all_disconnected = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._calls: set[asyncio.Task[None]] = set()
        self._listening: asyncio.Task[None] | None = None
        self._secret_checks = ThreadPoolExecutor(SECRETS_AT_ONCE, thread_name_prefix="secrets")
        """Threads of their own: hashing is slow by design, and must not hold up what else needs a thread."""
        self._names_to_release: list[tuple[int, int]] = []
        self._logged = ""
        self._logged_at = 0.0

    @property
    def uptime(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started_at

    async def join(self) -> None:
        """Register in the database, and listen for notifications."""
        self.broker_id = await self.store.brokers.join(self.name, seconds=BROKER_LEASE_SECONDS)
        self._operations.broker_id = self.broker_id
        self.notifications = Notifications(self.store, self.broker_id, self)
        if self._listening:
            self._listening.cancel()
        self._listening = asyncio.create_task(self.notifications.serve())

    async def evict_lost_sessions(self) -> None:
        """Hang up on clients whose session another broker took while this one was not alive."""
        sessions = list(self.core.sessions.values())  # others may be opened during the call
        tokens = await self.store.brokers.sessions(self.broker_id)
        for session in self.core.evict(sessions, tokens):
            log.warning("client %s has a session at another broker", session.name)
        self.flush()

    # Inputs

    def connected(self, session: Session) -> None:
        """A connection is open."""
        self.core.connect(session, time.monotonic())
        self.flush()

    def connection_lost(self, session: Session) -> None:
        """A connection is closed."""
        self.core.close(session, time.monotonic())
        self.flush()

    def arrived(self, queue: str) -> None:
        """Something is ready in a queue."""
        self.core.arrived(queue)
        self.flush()

    def wake_reads(self, queues: Sequence[str] | None = None) -> None:
        """Let every read that waits for these queues, or for any, try again."""
        self.core.wake_reads(queues)
        self.flush()

    def wake(self, tickets: Iterable[Ticket]) -> None:
        """Let these reads try again, those of them that still wait."""
        self.core.wake(tickets)
        self.flush()

    def drop_idle(self) -> None:
        """Hang up on connections whose idle timeout has passed."""
        self.core.drop_idle(time.monotonic())
        self.flush()

    def disconnect(self, client: int, token: int) -> bool:
        """End a client's session; False if it is not here."""
        was_here = self.core.disconnect(client, token, time.monotonic())
        self.flush()
        return was_here

    def end_moved(self, client: int, token: int) -> None:
        """Hang up on a session that goes on at another broker."""
        self.core.end_moved(client, token)
        self.flush()

    # Effects

    def flush(self) -> None:
        """Carry out the core's effects, and schedule dispatching, notifications and the timer."""
        core = self.core
        if core.effects and not self._flushing:
            self._flushing = True
            try:
                while core.effects:
                    for effect in core.take_effects():
                        self._carry_out(effect)
                    if core.metrics.sent_bytes - self._unsent_checked_at > UNSENT_CHECK:
                        self._unsent_checked_at = core.metrics.sent_bytes
                        core.bound_unsent()
            finally:
                self._flushing = False
        if core.dispatcher.has_news and not self._dispatch_scheduled:
            self._dispatch_scheduled = True
            asyncio.get_running_loop().call_soon(self._dispatch)  # with what else arrives in this turn of the loop
        if self.notifications is not None and (core.interests.has_news or core.interests.notifications):
            self.notifications.wake()
        if len(core.waiting):
            self._set_timer()
        if not core.connected:
            self._all_disconnected.set()
        if core.draining and core.drained:
            self._drained.set()

    def _carry_out(self, effect: Effect) -> None:
        try:
            match effect:
                case Reply(session, request, answer):
                    session.connection.reply(request, answer)
                case Proceed(session):
                    self.core.proceed(session, time.monotonic())
                case Woken(ticket):
                    if self.tracing is not None:
                        self.tracing.woken(ticket)
                case OpenSessions(hellos):
                    _spawn(self._open_sessions(hellos), self._tasks)
                case CheckSecret(pending, stored):
                    _spawn(self._check_secret(pending, stored), self._tasks)
                case ReleaseName(client, token):
                    self._release(client, token)
                case SayGoodbye(session, reason):
                    session.connection.say_goodbye(reason)
                case Open(session):
                    session.connection.open()
                case PauseReading(session):
                    session.connection.pause_reading()
                case ResumeReading(session):
                    session.connection.resume_reading()
                case Close(session):
                    session.connection.close()
                case Abort(session):
                    session.connection.abort()
        except Exception:  # one client's failure must not affect the others
            log.exception("could not carry out %s", type(effect).__name__)
            if isinstance(effect, Reply):
                self._report_failure(effect)

    def _report_failure(self, reply: Reply) -> None:
        """Tell a client that its answer could not be encoded; its other requests go on."""
        connection = reply.session.connection
        try:
            connection.reply(reply.request, wire.failure(reply.answer.id, InternalError(_DEFECT)))
        except Exception:
            log.exception("could not report the failure")
            connection.abort()

    def _set_timer(self) -> None:
        """Wake up for the first read whose time is up."""
        deadline = self.core.waiting.next_deadline()
        if deadline is None or (self._timer is not None and self._timer_at <= deadline):
            return  # a timer that is early sets the next one
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        delay = max(0.0, deadline - time.monotonic())
        self._timer = asyncio.get_running_loop().call_later(delay, self._on_deadline)

    def _on_deadline(self) -> None:
        self._timer = None
        self.core.expire_reads(time.monotonic())
        self.flush()

    # The database

    def _dispatch(self) -> None:
        self._dispatch_scheduled = False
        self._start_batches()
        self.flush()

    def _start_batches(self) -> None:
        while batch := self.core.next_batch(time.monotonic()):
            _spawn(self._execute(batch), self._calls)

    async def _execute(self, batch: Batch) -> None:
        core, size = self.core, len(batch.tickets)
        started = time.perf_counter_ns()
        outcomes: Sequence[Outcome]
        try:
            outcomes = await self._operations.perform(batch)
            if len(outcomes) != size:
                raise AssertionError(f"{len(outcomes)} outcomes of {size} requests")
        except StafetteError as error:
            self._log_confidential(error)
            outcomes = [error] * size
        except Exception:
            log.exception("%s failed", batch.operation)
            outcomes = [InternalError(_DEFECT)] * size
        ended = time.perf_counter_ns()
        core.metrics.database_seconds.add((ended - started) / 1e9)
        core.metrics.batch_requests.add(size)
        core.dispatcher.finished(batch)
        self._start_batches()  # before the answers: the database need not wait for them
        if self.tracing is not None:
            self.tracing.performed(batch.tickets, started, ended)
        core.complete(batch, outcomes, time.monotonic())
        self.flush()

    async def _open_sessions(self, hellos: Sequence[PendingHello]) -> None:
        outcomes: Sequence[HelloOutcome]
        moved: Sequence[Moved] = ()
        try:
            outcomes, moved = await authentication.open_sessions(hellos, self.store, self.broker_id)
        except StafetteError as error:
            self._log_confidential(error)
            outcomes = [error] * len(hellos)
        except Exception:
            log.exception("hellos failed")
            outcomes = [InternalError(_DEFECT)] * len(hellos)
        self.core.answer_hellos(hellos, outcomes, time.monotonic())
        self.flush()
        if moved:
            _spawn(self._notify_moved(moved), self._tasks)

    async def _check_secret(self, pending: PendingHello, stored: str | None) -> None:
        secret, name = pending.hello.secret or "", pending.hello.name
        outcome: str | StafetteError
        try:
            loop = asyncio.get_running_loop()
            agreeing = await loop.run_in_executor(self._secret_checks, authentication.check_secret, secret, stored)
            outcome = agreeing or authentication.wrong_secret(name)
        except Exception:
            log.exception("a secret could not be checked")
            outcome = InternalError(_DEFECT)
        self.core.metrics.secrets_checked += 1
        self.core.secret_checked(pending, outcome, time.monotonic())
        self.flush()

    async def _notify_moved(self, moved: Sequence[Moved]) -> None:
        try:
            await self.store.brokers.notify_moved_sessions(moved)
        except StafetteError as error:  # the database refuses that broker's reads for them anyway
            log.warning("could not tell other brokers that %d sessions have moved: %s", len(moved), error)

    def _log_confidential(self, error: StafetteError) -> None:
        """Log what clients are not told; the same failure of many calls once, until there is another or time passes."""
        now = time.monotonic()
        if error.confidential and (str(error) != self._logged or now >= self._logged_at + REPEATED_LOG_SECONDS):
            self._logged, self._logged_at = str(error), now
            log.error("%s", error)

    def _release(self, client: int, token: int) -> None:
        """Take a client offline; those that leave in the same turn of the loop share one call."""
        if not self._names_to_release:
            _spawn(self._release_names(), self._tasks)
        self._names_to_release.append((client, token))

    async def _release_names(self) -> None:
        await asyncio.sleep(0)
        names, self._names_to_release = self._names_to_release, []
        try:
            await self.store.clients.release_sessions(names)
        except StafetteError as error:  # a later session of the same client takes its name over
            log.warning("could not take %d clients offline: %s", len(names), error)

    # The end

    async def drain(self) -> None:
        """Answer accepted requests, refuse later ones, and say goodbye."""
        self.core.drain(time.monotonic())
        self.flush()
        await self._drained.wait()

    async def wait_until_disconnected(self) -> None:
        """Wait until no connection is left."""
        while self.core.connected:
            self._all_disconnected.clear()
            await self._all_disconnected.wait()

    async def leave(self) -> None:
        """Leave the database's list of brokers; clients can continue their sessions at another."""
        for session in list(self.core.connected):
            session.connection.close()
        if self._timer is not None:
            self._timer.cancel()
        if self._listening:
            self._listening.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._secret_checks.shutdown(wait=False)
        try:
            await self.store.brokers.leave(self.broker_id)
        except StafetteError as error:
            log.warning("could not leave the list of brokers, the lease will run out instead: %s", error)


def _spawn(work: Coroutine[None, None, None], tasks: set[asyncio.Task[None]]) -> None:
    """Start a task and keep it in a set until it ends: the loop itself has only a weak reference."""
    task = asyncio.create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
