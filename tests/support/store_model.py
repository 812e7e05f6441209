"""What the Store means, without a database: the same operations on one list of messages, with a clock set by hand.

It is written to be read, not to be fast. A batch is its requests one after the other, and a message is one object that
changes its state. Numbers that only PostgreSQL can choose (ids, tokens) are zero here until the first answer that
bears them; `test_state_machine.py` learns them then and insists on them ever after.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, ParamSpec, TypeVar

import msgspec

from stafette import errors
from stafette.database.clients import Claim
from stafette.database.messages import (
    DEFAULT_BUDGET,
    ExtendRequest,
    LeaseRequest,
    NackRequest,
    ReadRequest,
    SendRequest,
)
from stafette.database.monitoring import Overview
from stafette.database.queues import Counts
from stafette.model import Headers, LeaseRef, Message, QueueOptions

DEFAULT_MAX_BODY = 1_048_576
DEFAULT_MAX_DELIVERIES = 5
MAX_NAME = 200
KEY_SECONDS = 24 * 3600
MOST_SECONDS = 1e9
SESSION_SECONDS = 3600
INT16, INT32, INT64 = 2**15, 2**31, 2**63

State = Literal["ready", "delayed", "leased", "dead"]
Answer = TypeVar("Answer")
Arguments = ParamSpec("Arguments")


@dataclass
class ModelClient:
    """A registered client."""

    id: int
    name: str
    mode: str
    secret: str | None
    registered_at: datetime | None = None


@dataclass
class ModelQueue:
    """A queue; its messages know it by name."""

    name: str
    creator: str
    owner: str | None = None
    exclude_own: bool = False
    max_body: int = DEFAULT_MAX_BODY
    max_deliveries: int = DEFAULT_MAX_DELIVERIES
    dead_letter: str | None = None
    id: int = 0
    created_at: datetime | None = None


@dataclass(eq=False)
class ModelMessage:
    """A message in one queue, from its arrival to its end."""

    queue: str
    sender: str
    sender_id: int
    receiver: str | None
    context: int | None
    priority: int
    headers: Headers | None
    body: bytes
    expires_at: float | None
    state: State = "ready"
    until: float = 0  # delayed: when it is due; leased: when the lease ends
    deliveries: int = 0
    token: int = 0
    holder: int = 0
    id: int = 0
    arrived_at: datetime | None = None
    has_store: bool = True  # False: nobody can reach it, because its queue was deleted or has another store by now

    def shown(self, arrived_at: datetime) -> Message:
        """As a reader gets it."""
        return Message(
            id=self.id, queue=self.queue, sender=self.sender, receiver=self.receiver, context=self.context,
            priority=self.priority, arrived_at=self.arrived_at or arrived_at, deliveries=self.deliveries,
            headers=self.headers, body=self.body,
        )  # fmt: skip


@dataclass
class ModelKey:
    """The first use of an idempotency key: what was sent, and what came of it."""

    content: SendRequest
    sent: list[ModelMessage]
    expires_at: float


@dataclass
class ModelBroker:
    name: str
    alive_until: float


@dataclass
class ModelSession:
    broker: int | None
    """Where it is live, if that broker is; None: nowhere."""
    number: int | None = None
    """What its client shows."""
    token: int = 0
    ended_at: float = 0.0
    proves_secret: bool = True


def outcome(
    work: Callable[Arguments, Answer], *arguments: Arguments.args, **options: Arguments.kwargs
) -> Answer | errors.StafetteError:
    """The answer, or the error as an answer."""
    try:
        return work(*arguments, **options)
    except errors.StafetteError as error:
        return error


@dataclass
class ModelStore:
    """All of Stafette's state. Messages are in order of arrival, whatever happens to them later."""

    now: float = 0
    clients: dict[int, ModelClient] = field(default_factory=dict)
    queues: dict[str, ModelQueue] = field(default_factory=dict)
    messages: list[ModelMessage] = field(default_factory=list)
    discarded: list[ModelMessage] = field(default_factory=list)  # nobody can see them, but they are still stored
    keys: dict[tuple[int, str], ModelKey] = field(default_factory=dict)
    brokers: dict[int, ModelBroker] = field(default_factory=dict)
    sessions: dict[int, ModelSession] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)  # of everyone who ever registered, the last to do so at the end

    # Clients

    def register(self, name: str, mode: str, secret: str | None, number: int) -> ModelClient:
        """The first time counts; who takes the name of a deleted client is another client."""
        require(is_name(name), errors.InvalidRequest)
        require(mode in ("full", "read-only"), errors.InvalidRequest)
        known = self.client_named(name)
        if known is None:
            known = ModelClient(number, name, mode, secret)
            self.clients[number] = known
            self.names[number] = name
            self.queues["@" + name] = ModelQueue("@" + name, creator=name, owner=name)
        return known

    def client(self, name: str) -> ModelClient:
        known = self.client_named(name)
        if known is None:
            raise errors.ClientNotFound
        return known

    def client_named(self, name: str) -> ModelClient | None:
        return next((client for client in self.clients.values() if client.name == name), None)

    def set_secret(self, name: str, secret: str | None) -> None:
        client = self.client(name)
        client.secret = secret
        if session := self.sessions.get(client.id):
            session.proves_secret = False

    def secret_of(self, client: int) -> str | None:
        return self.clients[client].secret if client in self.clients else None

    def delete_client(self, name: str) -> None:
        """With it go its personal queue and what waits for it; what it sent stays."""
        client = self.client(name)
        require(self.broker_of(client.id) is None, errors.AlreadyOnline)
        self._discard([message for message in self.messages if message.receiver == name])
        self.sessions.pop(client.id, None)
        self._remove_queue("@" + name)
        del self.clients[client.id]

    def _may_change(self, client: int) -> ModelClient:
        require(client in self.clients, errors.ClientNotFound)
        require(self.clients[client].mode == "full", errors.PermissionDenied)
        return self.clients[client]

    # Queues

    def create_queue(self, client: int, name: str, options: QueueOptions, *, exist_ok: bool = False) -> ModelQueue:
        max_body, max_deliveries, dead_letter = options.max_body, options.max_deliveries, options.dead_letter
        creator = self._may_change(client)
        require(is_name(name) and not name.startswith("@"), errors.InvalidRequest)
        require(max_body is None or 0 <= max_body <= 2**26, errors.InvalidRequest)
        require(max_deliveries is None or 1 <= max_deliveries < INT16, errors.InvalidRequest)
        if dead_letter is not None:
            self.queue(dead_letter)
        require(exist_ok or name not in self.queues, errors.QueueExists)
        if name not in self.queues:
            self.queues[name] = ModelQueue(
                name, creator=creator.name, exclude_own=options.exclude_own, dead_letter=dead_letter,
                max_body=DEFAULT_MAX_BODY if max_body is None else max_body,
                max_deliveries=DEFAULT_MAX_DELIVERIES if max_deliveries is None else max_deliveries,
            )  # fmt: skip
        return self.queues[name]

    def delete_queue(self, client: int, name: str, *, force: bool) -> None:
        self._may_change(client)
        require(self.queue(name).owner is None, errors.PermissionDenied)
        require(force or not self._in_queue(name), errors.QueueNotEmpty)
        self._remove_queue(name)

    def _remove_queue(self, name: str) -> None:
        del self.queues[name]
        self._discard(self._in_queue(name))
        self._leave_store(name)
        for queue in self.queues.values():
            if queue.dead_letter == name:
                queue.dead_letter = None

    def queue(self, name: str) -> ModelQueue:
        require(name in self.queues, errors.QueueNotFound)
        return self.queues[name]

    def personal_queue(self, client: str) -> ModelQueue:
        self.client(client)
        return self.queue("@" + client)

    def waiting_queues(self, client: int, limit: int | None) -> list[tuple[ModelQueue, int]]:
        """Where something addressed to this client can be read, and how much, most first."""
        me = self._name_of(client)
        waiting = Counter(m.queue for m in self.messages if m.receiver == me is not None and self._can_be_read(m))
        return [(self.queues[name], waiting[name]) for name in sorted(waiting, key=lambda n: (-waiting[n], n))][:limit]

    # Sending

    def send(self, sends: Sequence[SendRequest]) -> list[list[ModelMessage] | errors.StafetteError]:
        return [outcome(self._send, send) for send in sends]

    def _send(self, send: SendRequest) -> list[ModelMessage]:
        """In all queues or in none; with a key only once."""
        require(bool(send.draft.queues) and is_storable(send), errors.InvalidRequest)
        if first := self._first_use(send):
            return first.sent
        messages = [self._message(send, queue) for queue in send.draft.queues]
        if send.key is not None:
            used = self.keys.get((send.sender, send.key))
            require(used is None or used.expires_at <= self.now, errors.KeyConflict)
            self.keys[send.sender, send.key] = ModelKey(_content(send), messages, self.now + KEY_SECONDS)
        self.messages += messages
        return messages

    def _first_use(self, send: SendRequest) -> ModelKey | None:
        """What this repeats, which may be more than could be sent now."""
        first = None if send.key is None else self.keys.get((send.sender, send.key))
        if first is None or first.expires_at <= self.now or send.sender not in self.clients:
            return None
        return first if first.content == _content(send) else None

    def _message(self, send: SendRequest, queue_name: str) -> ModelMessage:
        draft = send.draft
        sender = self._may_change(send.sender)
        queue = self.queue(queue_name)
        if draft.receiver is not None and self.client_named(draft.receiver) is None:
            require(draft.allow_unknown and is_name(draft.receiver), errors.ClientNotFound)
        require(draft.receiver is None or queue.owner in (None, draft.receiver), errors.PermissionDenied)
        require(not (queue.exclude_own and draft.receiver == sender.name), errors.InvalidRequest)
        require(len(draft.body) <= queue.max_body, errors.MessageTooLarge)
        require(1 <= draft.priority <= 10, errors.InvalidRequest)
        require(draft.delay is None or 0 <= draft.delay <= MOST_SECONDS, errors.InvalidRequest)
        require(draft.ttl is None or 0 < draft.ttl <= MOST_SECONDS, errors.InvalidRequest)
        require(all(isinstance(text, str) for text in (draft.headers or {}).values()), errors.InvalidRequest)
        require(send.key is None or 1 <= len(send.key) <= MAX_NAME, errors.InvalidRequest)
        return ModelMessage(
            queue=queue_name,
            sender=sender.name,
            sender_id=sender.id,
            receiver=queue.owner or draft.receiver,  # what is in a personal queue is its owner's
            context=draft.context,
            priority=draft.priority,
            headers=draft.headers,
            body=draft.body,
            expires_at=None if draft.ttl is None else self.now + draft.ttl,
            state="delayed" if draft.delay else "ready",
            until=self.now + (draft.delay or 0),
        )

    # Reading

    def receive(self, asks: Sequence[ReadRequest]) -> list[list[ModelMessage] | errors.StafetteError]:
        answers = self._take(asks)
        for answer in answers:
            self._remove(answer if isinstance(answer, list) else ())
        return answers

    def lease(self, asks: Sequence[LeaseRequest]) -> list[list[ModelMessage] | errors.StafetteError]:
        answers = self._take(asks)
        for lease, answer in zip(asks, answers, strict=True):
            for message in answer if isinstance(answer, list) else ():
                message.until = self.now + lease.seconds
                message.deliveries += 1
                message.token = 0
                message.holder = lease.client
        return answers

    def peek(self, asks: Sequence[ReadRequest]) -> list[list[ModelMessage] | errors.StafetteError]:
        """Each ask for itself: nothing is taken, so two may see the same."""
        return [outcome(self._look, ask) for ask in asks]

    def _take(self, asks: Sequence[ReadRequest]) -> list[list[ModelMessage] | errors.StafetteError]:
        """In a batch the plain asks come first, then the others, each kind in its order: any order is as right, and
        plain asks are fast together. A value that cannot be stored splits its batch in halves."""
        if len(asks) > 1 and not all(is_storable(ask) for ask in asks):
            middle = len(asks) // 2
            return self._take(asks[:middle]) + self._take(asks[middle:])
        turns = sorted(range(len(asks)), key=lambda place: not self._is_plain(asks[place]))
        answers: dict[int, list[ModelMessage] | errors.StafetteError] = {}
        for place in turns:
            answers[place] = found = outcome(self._look, asks[place], removing=True)
            for message in found if isinstance(found, list) else ():
                message.state = "leased"
        return [answers[place] for place in range(len(asks))]

    def _is_plain(self, ask: ReadRequest) -> bool:
        """Only messages for anyone, by priority, come into question, and not more bytes than a call hands out."""
        selection = ask.selection
        if selection.queue not in self.queues or self.queues[selection.queue].exclude_own:
            return False
        if selection.count > 1 and selection.count * (self.queues[selection.queue].max_body + 100) > DEFAULT_BUDGET:
            return False
        own = [m for m in self._in_queue(selection.queue, "ready") if m.receiver == self._name_of(ask.client)]
        return selection.sender is None and selection.context is None and selection.order == "priority" and not own

    def _look(self, ask: ReadRequest, *, removing: bool = False) -> list[ModelMessage]:
        selection = ask.selection
        require(is_storable(ask), errors.InvalidRequest)
        require(ask.client in self.clients, errors.ClientNotFound)
        reader = self.clients[ask.client]
        require(not removing or reader.mode == "full", errors.PermissionDenied)
        if selection.queue is not None:
            require(self.queue(selection.queue).owner in (None, reader.name), errors.PermissionDenied)
        if selection.sender is not None:
            self.client(selection.sender)
        require((selection.queue, selection.sender, selection.context) != (None, None, None), errors.InvalidRequest)
        require(selection.count >= 1, errors.InvalidRequest)
        found = [
            message
            for message in self.messages
            if self._is_visible(message, reader.id)
            and selection.queue in (None, message.queue)
            and (selection.sender is None or self.client(selection.sender).id == message.sender_id)
            and selection.context in (None, message.context)
        ]
        if selection.order == "priority":
            found.sort(key=lambda message: -message.priority)
        return found[: selection.count]

    def _can_be_read(self, message: ModelMessage) -> bool:
        return message.state == "ready" and (message.expires_at is None or message.expires_at > self.now)

    def _is_visible(self, message: ModelMessage, reader: int) -> bool:
        """For anyone or for the reader; where own messages are excluded, not what the reader sent."""
        own_hidden = self.queues[message.queue].exclude_own and message.sender_id == reader
        is_for_reader = message.receiver in (None, self._name_of(reader))
        return self._can_be_read(message) and is_for_reader and not own_hidden

    def _name_of(self, client: int) -> str | None:
        """Of one that is registered; a deleted one has lost its name to whoever takes it next."""
        return self.names[client] if client in self.clients else None

    def browse(self, queue: str, viewer: int | None) -> list[ModelMessage]:
        """All pages of a queue in order of arrival. An operator, who is nobody, sees all."""
        owner = self.queue(queue).owner
        waiting = [message for message in self._in_queue(queue) if self._can_be_read(message)]
        if viewer is None:
            return waiting
        require(owner in (None, self._name_of(viewer)), errors.PermissionDenied)
        return [message for message in waiting if self._is_visible(message, viewer)]

    # Leases

    def ack(self, leases: Sequence[LeaseRef]) -> list[errors.StafetteError | None]:
        return [outcome(self._ack, held) for held in leases]

    def nack(self, leases: Sequence[NackRequest]) -> list[str | errors.StafetteError | None]:
        return [outcome(self._nack, held) for held in leases]

    def extend(self, leases: Sequence[ExtendRequest]) -> list[errors.StafetteError | None]:
        return [outcome(self._extend, held) for held in leases]

    def _ack(self, held: LeaseRef) -> None:
        self._remove([self._leased(held)])

    def _nack(self, held: NackRequest) -> str | None:
        message = self._leased(held)
        self._give_back(message, held.delay or 0)
        return message.queue if message.state == "ready" else None

    def _extend(self, held: ExtendRequest) -> None:
        self._leased(held).until = self.now + held.seconds

    def _leased(self, held: LeaseRef) -> ModelMessage:
        """The message, if the lease is the one that counts and has time left."""
        for message in self.messages:
            if (message.id, message.token, message.holder) == (held.message, held.token, held.client) and (
                message.state == "leased"
            ):
                require(message.until > self.now, errors.LeaseLost)
                return message
        raise errors.LeaseLost

    def _give_back(self, message: ModelMessage, delay: float = 0) -> None:
        """Back to its queue, or, delivered as often as its queue allows, to where the dead go."""
        queue = self.queues[message.queue]
        if message.deliveries < queue.max_deliveries:
            message.state = "delayed" if delay > 0 else "ready"
            message.until = self.now + delay
        elif queue.dead_letter is None:
            message.state = "dead"
        else:
            message.state = "ready"
            message.queue = queue.dead_letter
            letters = self.queues[queue.dead_letter]
            to_oneself = letters.exclude_own and message.receiver == message.sender
            message.receiver = letters.owner or (None if to_oneself else message.receiver)
            message.headers = {**(message.headers or {}), "stafette-died-in": queue.name}
            message.deliveries = 0
            message.expires_at = None

    # A whole queue

    def purge(self, client: int, queue: str) -> int:
        """What others have sent to others stays. With anything that is for others the rows are deleted at once."""
        purger = self._may_change(client)
        require(self.queue(queue).owner in (None, purger.name), errors.PermissionDenied)
        waiting = self._in_queue(queue, "ready", "delayed")
        hidden = [m for m in self.discarded if m.queue == queue and m.has_store and m.state in ("ready", "delayed")]
        if any(m.receiver not in (None, purger.name) for m in waiting) or any(m.receiver is not None for m in hidden):
            return self._remove([m for m in waiting if m.receiver in (None, purger.name) or m.sender_id == client])
        return self._leave_store(queue)

    def purge_as_operator(self, queue: str) -> int:
        """Of all messages, whoever they are for."""
        self.queue(queue)
        return self._leave_store(queue)

    def _leave_store(self, queue: str) -> int:
        """What waits in a queue is hidden; so is what was hidden from its receiver there before."""
        count = self._discard(self._in_queue(queue, "ready", "delayed"))
        for message in self.discarded:
            message.has_store = message.has_store and message.queue != queue
        return count

    def redrive(self, queue: str) -> int:
        self.queue(queue)
        dead = self._in_queue(queue, "dead")
        for message in dead:
            message.state = "ready"
            message.deliveries = 0
            message.expires_at = None
        return len(dead)

    def delete_dead(self, queue: str) -> int:
        self.queue(queue)
        return self._remove(self._in_queue(queue, "dead"))

    def count(self, queue: str) -> Counts:
        """What has expired counts until upkeep drops it."""
        self.queue(queue)
        states = Counter(message.state for message in self._in_queue(queue))
        return Counts(states["ready"], states["delayed"], states["leased"], states["dead"])

    def overview(self) -> Overview:
        states = Counter(message.state for message in self.messages)
        return Overview(
            clients=len(self.clients),
            online=sum(self.broker_of(client) is not None for client in self.clients),
            brokers=sum(broker.alive_until > self.now for broker in self.brokers.values()),
            queues=len(self.queues),
            ready=states["ready"],
            delayed=states["delayed"],
            leased=states["leased"],
            dead=states["dead"],
        )

    def _in_queue(self, queue: str, *states: State) -> list[ModelMessage]:
        return [m for m in self.messages if m.queue == queue and (not states or m.state in states)]

    def _remove(self, gone: Iterable[ModelMessage]) -> int:
        before = len(self.messages)
        going = set(gone)
        self.messages = [message for message in self.messages if message not in going]
        return before - len(self.messages)

    def _discard(self, gone: Iterable[ModelMessage]) -> int:
        """They are gone for everybody, but not yet from the tables."""
        gone = list(gone)
        self.discarded += gone
        return self._remove(gone)

    # Upkeep

    def expire_leases(self) -> Counter[str | None]:
        """How many messages came back, by the queue they are in now; None for those that nobody gets."""
        late, hidden = self._at_their_end("leased")
        for message in late:
            self._give_back(message)
        self.discarded = [message for message in self.discarded if message not in hidden]
        return Counter([*(message.queue for message in late), *(None for _ in hidden)])

    def promote_delayed(self) -> Counter[str | None]:
        due, hidden = self._at_their_end("delayed")
        for message in due:
            message.state = "ready"
        for message in hidden:
            message.until = math.inf
        return Counter([*(message.queue for message in due), *(None for _ in hidden)])

    def _at_their_end(self, state: State) -> tuple[list[ModelMessage], list[ModelMessage]]:
        """Messages of this state whose time is over, and discarded ones."""
        every, hidden = (
            [message for message in messages if message.state == state and message.until <= self.now]
            for messages in (self.messages, self.discarded)
        )
        return every, hidden

    def drop_expired(self) -> int:
        """Also of what is discarded."""
        expired = [m for m in self.discarded if m.state == "ready" and not self._can_be_read(m)]
        self.discarded = [message for message in self.discarded if message not in expired]
        return len(expired) + self._remove(
            [m for m in self.messages if m.state == "ready" and not self._can_be_read(m)]
        )

    def delete_discarded(self) -> int:
        """All but those that are leased, which go when their lease runs out."""
        before = len(self.discarded)
        self.discarded = [message for message in self.discarded if message.state == "leased"]
        return before - len(self.discarded)

    def stored(self, state: State) -> int:
        """How many rows there are, whoever can see them."""
        return sum(message.state == state for message in [*self.messages, *self.discarded])

    def forget_keys(self) -> int:
        """They count no longer, so nobody sees a difference."""
        before = len(self.keys)
        self.keys = {place: key for place, key in self.keys.items() if key.expires_at > self.now}
        return before - len(self.keys)

    # Brokers and sessions: a session is live as long as its broker, and can be continued for a while after

    def join_broker(self, broker: int, name: str, seconds: float) -> None:
        for number, known in list(self.brokers.items()):
            if known.alive_until < self.now - SESSION_SECONDS:
                self.sessions = {
                    client: session for client, session in self.sessions.items() if session.broker != number
                }
                del self.brokers[number]
        self.brokers[broker] = ModelBroker(name, self.now + seconds)

    def renew_broker(self, broker: int, seconds: float) -> bool | None:
        known = self.brokers.get(broker)
        if known is None:
            return None
        held = known.alive_until > self.now
        known.alive_until = self.now + seconds
        return held

    def leave_broker(self, broker: int) -> None:
        for session in self._sessions_at(broker):
            session.broker, session.ended_at = None, self.now
        self.brokers.pop(broker, None)

    def _sessions_at(self, broker: int) -> list[ModelSession]:
        return [session for session in self.sessions.values() if session.broker == broker]

    def broker_of(self, client: int) -> ModelBroker | None:
        """The live broker through which a client is online."""
        session = self.sessions.get(client)
        if session is None or session.broker is None or self.brokers[session.broker].alive_until <= self.now:
            return None
        return self.brokers[session.broker]

    def proves(self, client: int, number: int | None) -> bool:
        """Whether a number that a client shows stands for its secret."""
        session = self.sessions.get(client)
        if session is None or not session.proves_secret or number is None or session.number != number:
            return False
        end = session.ended_at if session.broker is None else self.brokers[session.broker].alive_until
        return end > self.now - SESSION_SECONDS

    def take_sessions(self, claims: Sequence[Claim], broker: int) -> list[ModelSession | type[errors.StafetteError]]:
        """A name that is online already is refused, unless its session is continued; so is a stranger, who has
        another secret, and whoever comes twice at once.
        """
        require(broker in self.brokers or not any(self._may_take(claim) for claim in claims), errors.InvalidRequest)
        answers: list[ModelSession | type[errors.StafetteError]] = []
        served: set[int] = set()
        for claim in claims:
            answer: ModelSession | type[errors.StafetteError]
            if claim.client not in self.clients:
                answer = errors.ClientNotFound
            elif claim.client in served or not self._has_secret(claim):
                answer = errors.Unavailable
            elif not self._may_take(claim):
                answer = errors.AlreadyOnline
            else:
                answer = self.sessions[claim.client] = ModelSession(broker, claim.session)
            served.add(claim.client)
            answers.append(answer)
        return answers

    def _has_secret(self, claim: Claim) -> bool:
        return self.clients[claim.client].secret == claim.secret or self.proves(claim.client, claim.session)

    def _may_take(self, claim: Claim) -> bool:
        if claim.client not in self.clients or not self._has_secret(claim):
            return False
        if self.broker_of(claim.client) is None:
            return True
        return claim.session is not None and self.sessions[claim.client].number == claim.session

    def release_sessions(self, sessions: Sequence[tuple[int, int]], *, for_good: bool) -> None:
        for client, token in sessions:
            session = self.sessions.get(client)
            if session and session.broker is not None and session.token == token:
                session.broker, session.ended_at = None, self.now
                if for_good or session.number is None:
                    del self.sessions[client]

    def forget_sessions(self) -> int:
        before = len(self.sessions)
        self.sessions = {
            client: session
            for client, session in self.sessions.items()
            if session.broker is not None or session.ended_at >= self.now - SESSION_SECONDS
        }
        return before - len(self.sessions)

    def broker_sessions(self, broker: int) -> dict[int, int]:
        return {client: session.token for client, session in self.sessions.items() if session.broker == broker}


def require(condition: bool, otherwise: type[errors.StafetteError]) -> None:
    if not condition:
        raise otherwise


def is_name(name: str) -> bool:
    return 1 <= len(name) <= MAX_NAME and name.isprintable()


def is_storable(request: SendRequest | ReadRequest) -> bool:
    """Whether PostgreSQL has room for the values, whatever we think of them."""
    if isinstance(request, SendRequest):
        draft = request.draft
        texts = [draft.receiver, request.key, *draft.queues, *(draft.headers or {}).values()]
        context, number_fits = draft.context, -INT16 <= draft.priority < INT16
    else:
        selection = request.selection
        texts = [selection.queue, selection.sender]
        context, number_fits = selection.context, -INT32 <= selection.count < INT32
    context_fits = context is None or -INT64 <= context < INT64
    return context_fits and number_fits and not any("\0" in text for text in texts if isinstance(text, str))


def _content(send: SendRequest) -> SendRequest:
    """What a key stands for: all of the message, but not whether a stranger may receive it."""
    return SendRequest(send.sender, msgspec.structs.replace(send.draft, allow_unknown=False))
