"""The Store against its model: any sequence of operations must look the same in PostgreSQL and in a few lists.

Hypothesis invents the sequences. Every answer is compared, error for error, and after every step all that can be seen.
Time passes by moving the deadlines in the database into the past; all waiting times are thousands of seconds, so the
seconds that the test itself takes never matter.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any, TypeVar

import asyncpg
import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from stafette.database import queues as queues_module
from stafette.database import schema
from stafette.database.clients import Claim, Taken
from stafette.database.connect import connect
from stafette.database.console import Console
from stafette.database.messages import ExtendRequest, LeaseRequest, NackRequest, ReadRequest, SendRequest
from stafette.database.store import Store
from stafette.errors import LeaseLost, StafetteError
from stafette.model import Client, Draft, Leased, LeaseRef, Message, Queue, QueueOptions, Selection
from tests.support.actors import ADMIN
from tests.support.databases import Databases
from tests.support.store_model import ModelClient, ModelMessage, ModelQueue, ModelSession, ModelStore, State, outcome

# A queue "jobs" for "b ann" and a queue "jobs b" for "ann": what is glued together with blanks would be confused.
NAMES = ("ann", "bob", "b ann", "reader")
QUEUES = ("jobs", "jobs b", "audit", "@ann", "@bob")
NOBODY = 2**31 - 1  # the number of no client, queue or broker
PLENTY = 1000
STATES: tuple[State, ...] = ("ready", "delayed", "leased", "dead")

T = TypeVar("T")
U = TypeVar("U")


def mostly(usual: T, *rare: U) -> st.SearchStrategy[T | U]:
    """The usual value twice as often as all the rare ones together."""
    return st.sampled_from([usual] * 2 * len(rare) + list(rare))


people = st.sampled_from([0, 0, 0, 1, 1, 1, 2, 2, 3, len(NAMES)])  # places in NAMES, the last past the end: nobody
regulars = st.sampled_from([0, 0, 1, 1, 2])  # those who are registered to begin with
queue_names = st.sampled_from(["jobs", "jobs", "jobs", "jobs b", "audit", "@ann", "@bob"])
seconds = st.sampled_from([1000.0, 3000.0, 9000.0])
NO_KEY = st.none()


def sends(sender: Any, key: Any = NO_KEY, **fields: Any) -> Any:
    return st.builds(SendRequest, sender, st.builds(Draft, **fields), key)


def reads(client: Any, **fields: Any) -> Any:
    return st.builds(ReadRequest, client, st.builds(Selection, **fields))


def altered(send: SendRequest, sender: int, key: str | None, **fields: Any) -> SendRequest:
    return SendRequest(sender, msgspec.structs.replace(send.draft, **fields), key)


good_sends = sends(
    sender=regulars,
    queues=mostly(("jobs",), ("jobs b",), ("audit",), ("@bob",), ("jobs", "@ann"), ("jobs", "audit", "jobs")),
    body=mostly(b"body", b"", b"\x00\xff"),
    receiver=st.sampled_from([None, None, None, None, *NAMES, "stranger"]),
    priority=mostly(5, 1, 4, 6, 10),
    context=mostly(None, 7, 8),
    headers=mostly(None, {}, {"type": "x"}, {"type": "y", "a b": "c"}),
    delay=mostly(None, 0.0, 1000.0, 3000.0),
    ttl=mostly(None, 1000.0, 3000.0),
    allow_unknown=mostly(True, False),
)
odd_sends = st.builds(
    altered,
    good_sends,
    sender=people,
    queues=mostly(("jobs",), (), ("nowhere",), ("jobs", "")),
    body=mostly(b"body", b"too long for some"),
    receiver=mostly(None, "", "no\nname", "\0"),
    priority=mostly(5, 0, 11, 2**15),
    context=mostly(None, 2**63),
    headers=mostly(None, {"zero": "\0"}, {"number": 1}, {"list": ["a"], "text": ""}),
    delay=mostly(None, -1.0, 2e9, math.nan),
    ttl=mostly(None, 0.0, 2e9, math.inf),
    key=mostly(None, "", "k" * 201, "\0"),
)
# Few and much alike, so that keys repeat and conflict.
keyed_sends = sends(
    sender=mostly(0, 1),
    queues=st.sampled_from([("jobs",), ("jobs b",), ("jobs b", "jobs")]),
    body=mostly(b"body", b"more"),
    receiver=st.sampled_from(["ann", "b ann", "ann", "b ann", None]),
    ttl=mostly(None, None, 1000.0),
    key=st.sampled_from(["key", "other key"]),
    allow_unknown=st.just(True),
)
good_asks = reads(
    client=regulars,
    queue=mostly("jobs", "jobs b", "audit", None),
    sender=mostly(None, "ann", "bob", "b ann"),
    context=mostly(None, 7, 8),
    order=mostly("priority", "arrival"),
    count=mostly(1, 2, 3, 50),
)
plain_asks = reads(client=regulars, queue=queue_names, count=mostly(1, 2, 3))
odd_asks = reads(
    client=people,
    queue=mostly("jobs", None, "@bob", "nowhere", "\0"),
    sender=mostly(None, "bob", "stranger"),
    context=mostly(None, 2**63),
    count=mostly(1, 0),
)
sorts_of_sends = st.lists(good_sends, min_size=1, max_size=4) | st.lists(
    good_sends | keyed_sends | odd_sends, min_size=2, max_size=4
)
supplies = st.lists(good_sends, max_size=3)  # before reading, so that there is something to read
sorts_of_asks = st.lists(plain_asks | plain_asks | good_asks | good_asks | odd_asks, min_size=1, max_size=4)


def endings(
    end: str, leases: Sequence[LeaseRef], delays: Iterable[float | None], times: Iterable[float]
) -> Sequence[LeaseRef]:
    """What to ask the store for, to end these leases like that."""
    if end == "nack":
        pairs = zip(leases, chain(delays, repeat(None)), strict=False)
        return [NackRequest(lease.client, lease.message, lease.token, delay) for lease, delay in pairs]
    if end == "extend":
        pairs_with_time = zip(leases, chain(times, repeat(30.0)), strict=False)
        return [ExtendRequest(lease.client, lease.message, lease.token, time) for lease, time in pairs_with_time]
    return leases


@dataclass(frozen=True)
class World:
    """What all examples of one run share: the database, and the loop to talk to it in."""

    runner: asyncio.Runner
    store: Store
    connection: asyncpg.Connection[asyncpg.Record]

    async def clean(self) -> None:
        """For a handful of rows quicker than TRUNCATE. Counters go on: no number is expected before it is seen."""
        tables = (*STATES, "discarded", "keys", "sessions", "brokers", "queues", "clients")
        await self.connection.execute("; ".join(f"DELETE FROM stafette.{table}" for table in tables))

    async def pass_time(self, seconds: float) -> None:
        """All deadlines come nearer."""
        await self.connection.execute(
            "; ".join(
                f"UPDATE stafette.{table} SET {column} = {column} - interval '{seconds} seconds'"
                for table, column in (
                    ("ready", "expires_at"), ("delayed", "expires_at"), ("delayed", "due_at"),
                    ("leased", "expires_at"), ("leased", "leased_until"), ("dead", "expires_at"),
                    ("keys", "expires_at"), ("brokers", "alive_until"), ("sessions", "ended_at"),
                )
            )
        )  # fmt: skip


class StoreMachine(RuleBasedStateMachine):
    """Does everything twice, and looks for a difference."""

    leases: Bundle[LeaseRef] = Bundle("leases")
    brokers: Bundle[int] = Bundle("brokers")
    sessions: Bundle[tuple[int, int]] = Bundle("sessions")

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.store = world.store
        self.model = ModelStore()
        self.newest_message = 0
        self.tokens: set[int] = set()
        self.run(world.clean())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.world.runner.run(work)

    def real(self, work: Awaitable[T]) -> T | StafetteError:
        async def waited() -> T:
            return await work

        return outcome(self.run, waited())

    def number(self, place: int) -> int:
        """The number of the last client of this name, also when it was deleted; nobody's when it never registered."""
        name = NAMES[place] if place < len(NAMES) else None
        return next((number for number, known in reversed(self.model.names.items()) if known == name), NOBODY)

    # Comparing

    def agree(self, actual: T | StafetteError, expected: U | StafetteError) -> tuple[T, U] | None:
        """Both answers, or None when both are the same error."""
        if isinstance(expected, StafetteError) or isinstance(actual, StafetteError):
            assert isinstance(actual, type(expected)), (actual, expected)
            return None
        return actual, expected

    def same(self, actual: T | StafetteError, expected: T | StafetteError) -> None:
        if both := self.agree(actual, expected):
            assert both[0] == both[1]

    def agree_each(
        self,
        actual: Sequence[list[T] | StafetteError],
        expected: Sequence[list[U] | StafetteError],
        check: Callable[[T, U], None],
    ) -> None:
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected, strict=True):
            if both := self.agree(one, other):
                assert len(both[0]) == len(both[1]), both
                for pair in zip(*both, strict=True):
                    check(*pair)

    def same_id(self, actual: int, expected: ModelMessage) -> None:
        """A new message's id is higher than all before."""
        if not expected.id:
            assert actual > self.newest_message
            expected.id = self.newest_message = actual
        assert actual == expected.id

    def same_message(self, actual: Message, expected: ModelMessage) -> None:
        assert actual == expected.shown(actual.arrived_at)
        expected.arrived_at = actual.arrived_at

    def same_lease(self, actual: Leased, expected: ModelMessage) -> None:
        self.same_message(actual.message, expected)
        assert 0 < actual.token < 2**63
        assert actual.token not in self.tokens
        self.tokens.add(actual.token)
        expected.token = actual.token

    def same_queue(self, actual: Queue, expected: ModelQueue, messages: int | None = None) -> None:
        expected.id = expected.id or actual.id
        expected.created_at = expected.created_at or actual.created_at
        assert actual == Queue(
            id=expected.id, name=expected.name, creator=expected.creator, created_at=expected.created_at,
            owner=expected.owner, exclude_own=expected.exclude_own, max_body=expected.max_body,
            max_deliveries=expected.max_deliveries, dead_letter=expected.dead_letter,
            messages=self.model.count(expected.name).ready if messages is None else messages,
        )  # fmt: skip

    def same_client(self, actual: Client, expected: ModelClient) -> None:
        expected.registered_at = expected.registered_at or actual.registered_at
        broker = self.model.broker_of(expected.id)
        assert actual.last_seen_at >= actual.registered_at
        assert msgspec.structs.astuple(actual) == (
            expected.id, expected.name, expected.mode, expected.registered_at, actual.last_seen_at,
            broker and broker.name,
        )  # fmt: skip

    # Clients

    @initialize(
        mode=mostly("full", "read-only"),
        exclude_own=st.booleans(),
        max_deliveries=mostly(1, 2),
        dead_letter=st.sampled_from(["audit", "@ann", None, None]),
        batch=st.lists(good_sends, min_size=3, max_size=6),
    )
    def begin(
        self, mode: str, exclude_own: bool, max_deliveries: int, dead_letter: str | None, batch: list[SendRequest]
    ) -> None:
        """A few clients, queues and messages, so that there is something to do."""
        for name in ("ann", "bob"):
            self.register(name, "full", None)
        self.register("b ann", mode, None)
        self.create_queue(0, "audit", False, False, 4, None, None)
        self.create_queue(0, "jobs", exclude_own, False, None, max_deliveries, dead_letter)
        self.create_queue(1, "jobs b", False, False, None, None, "jobs")
        self._agree_on_sends(batch)

    @rule(
        name=mostly("bob", *NAMES, "", "new\nline", "n" * 201),
        mode=mostly("full", "read-only", "odd"),
        secret=mostly(None, "hash"),
        change=mostly(False, True),
    )
    def register(self, name: str, mode: str, secret: str | None, change: bool = False) -> None:
        if change:
            self.agree(
                self.real(Console(self.store.pool).set_secret(ADMIN, name, secret)),
                outcome(self.model.set_secret, name, secret),
            )
        actual = self.real(self.store.clients.register(name, mode=mode, secret=secret))
        number = 0 if isinstance(actual, StafetteError) else actual.id
        is_new = number not in self.model.names
        expected = outcome(self.model.register, name, mode, secret, number)
        if both := self.agree(actual, expected):
            assert self.model.names[both[1].id] == name
            assert is_new == (self.model.client(name).registered_at is None)
            assert msgspec.structs.astuple(both[0])[:4] == (both[1].id, name, both[1].mode, both[1].secret)

    @rule(name=mostly("b ann", *NAMES, "stranger"), supply=supplies)
    def delete_client(self, name: str, supply: list[SendRequest]) -> None:
        """Perhaps with something waiting for it."""
        self._agree_on_sends([altered(send, send.sender, send.key, receiver=name) for send in supply])
        self.agree(
            self.real(Console(self.store.pool).delete_client(ADMIN, name)), outcome(self.model.delete_client, name)
        )

    # Queues

    @rule(
        client=people,
        name=mostly("jobs b", *QUEUES, "", "new\nline", "q" * 201),
        exclude_own=st.booleans(),
        exist_ok=mostly(True, False),
        max_body=mostly(None, 0, 4, -1, 2**26 + 1),
        max_deliveries=mostly(None, 1, 2, 0, 2**15),
        dead_letter=st.none() | mostly("audit", *QUEUES, "nowhere"),
    )
    def create_queue(
        self,
        client: int,
        name: str,
        exclude_own: bool,
        exist_ok: bool,
        max_body: int | None,
        max_deliveries: int | None,
        dead_letter: str | None,
    ) -> None:
        creator = self.number(client)
        options = QueueOptions(
            exclude_own=exclude_own, max_body=max_body, max_deliveries=max_deliveries, dead_letter=dead_letter
        )
        actual = self.real(self.store.queues.create(creator, name, options, exist_ok=exist_ok))
        expected = outcome(self.model.create_queue, creator, name, options, exist_ok=exist_ok)
        if both := self.agree(actual, expected):
            self.same_queue(*both)

    @rule(
        work=mostly("redrive", "delete", "delete with force", "purge", "purge", "purge as operator", "remove dead"),
        client=people,
        queue=st.sampled_from(["jobs", "jobs", "jobs", *QUEUES, "nowhere"]),
    )
    def clear(self, work: str, client: int, queue: str) -> None:
        """Do away with a queue, with what waits in it, or with its dead."""
        who, store, model = self.number(client), self.store, self.model
        if work.startswith("delete"):
            force = work.endswith("force")
            actual = self.real(store.queues.delete(who, queue, force=force))
            self.agree(actual, outcome(model.delete_queue, who, queue, force=force))
        elif work == "purge":
            self.same(self.real(store.queues.purge(who, queue)), outcome(model.purge, who, queue))
        elif work == "purge as operator":
            self.same(self.real(Console(store.pool).purge(ADMIN, queue)), outcome(model.purge_as_operator, queue))
        elif work == "remove dead":
            self.same(self.real(Console(store.pool).delete_dead(ADMIN, queue)), outcome(model.delete_dead, queue))
        else:
            self.same(self.real(Console(store.pool).redrive(ADMIN, queue)), outcome(model.redrive, queue))

    # Looking around

    @rule(
        client=mostly("bob", *NAMES, "stranger"),
        queue=mostly("jobs", *QUEUES, "nowhere"),
        viewer=st.none() | people,
        page=mostly(2, 1, PLENTY),
        after=mostly("", "@", "b", "jobs", "z"),
        limit=mostly(None, 0, 1, 2),
    )
    def look_around(
        self, client: str, queue: str, viewer: int | None, page: int, after: str, limit: int | None
    ) -> None:
        store, model = self.store, self.model
        if clients := self.agree(self.real(store.clients.get(client)), outcome(model.client, client)):
            self.same_client(*clients)
        if queues := self.agree(self.real(store.queues.personal(client)), outcome(model.personal_queue, client)):
            self.same_queue(*queues)
        if queues := self.agree(self.real(store.queues.get(queue)), outcome(model.queue, queue)):
            self.same_queue(*queues)
            self.same_queue(self.run(store.queues.get(queues[0].id)), queues[1])
        self.same(self.real(store.queues.count(queue)), outcome(model.count, queue))
        listed = [found.name for found in self.run(store.queues.all(after=after, limit=limit))]
        assert listed == sorted(name for name in model.queues if name > after)[:limit]
        listed = [found.name for found in self.run(store.clients.all(after=after, limit=limit))]
        assert listed == sorted(known.name for known in model.clients.values() if known.name > after)[:limit]
        who = None if viewer is None else self.number(viewer)
        if both := self.agree(self.real(self._pages(queue, who, page)), outcome(model.browse, queue, who)):
            self.agree_each([both[0]], [both[1]], self.same_message)
        if who is not None:
            waiting = self.run(store.queues.waiting(who, limit=limit))
            for found, (expected, messages) in zip(waiting, model.waiting_queues(who, limit), strict=True):
                self.same_queue(found, expected, messages)

    async def _pages(self, queue: str, viewer: int | None, limit: int) -> list[Message]:
        found: list[Message] = []
        while page := await self.store.messages.browse(
            queue, viewer=viewer, after=found[-1].id if found else None, limit=limit
        ):
            assert len(page) <= limit
            found += page
        return found

    # Messages

    @rule(batch=sorts_of_sends)
    def send(self, batch: list[SendRequest]) -> None:
        self._agree_on_sends(batch)

    @rule(batch=st.lists(keyed_sends, min_size=1, max_size=4))
    def send_with_keys(self, batch: list[SendRequest]) -> None:
        self._agree_on_sends(batch)

    def _agree_on_sends(self, batch: list[SendRequest]) -> None:
        batch = [msgspec.structs.replace(send, sender=self.number(send.sender)) for send in batch]
        self.agree_each(self.run(self.store.messages.send(batch)), self.model.send(batch), self.same_id)

    def _numbered(self, batch: list[ReadRequest]) -> list[ReadRequest]:
        return [msgspec.structs.replace(ask, client=self.number(ask.client)) for ask in batch]

    @rule(supply=supplies, batch=sorts_of_asks, later=mostly(0.0, 1000.0, 3000.0), leave=st.booleans())
    def receive(self, supply: list[SendRequest], batch: list[ReadRequest], later: float, leave: bool) -> None:
        self._agree_on_sends(supply)
        self._pass(later)
        batch = self._numbered(batch)
        self.agree_each(self.run(self.store.messages.peek(batch)), self.model.peek(batch), self.same_message)
        if not leave:
            self.agree_each(self.run(self.store.messages.receive(batch)), self.model.receive(batch), self.same_message)

    # Leases

    @rule(
        target=leases,
        supply=supplies,
        batch=sorts_of_asks,
        times=st.lists(seconds, min_size=4, max_size=4),
        later=mostly(0.0, 1000.0, 3000.0),
        end=mostly("nack", "no", "ack", "extend"),
    )
    def lease(
        self, supply: list[SendRequest], batch: list[ReadRequest], times: list[float], later: float, end: str
    ) -> Any:
        """Lease, and after a while perhaps end what was leased, in vain if the while was too long."""
        self._agree_on_sends(supply)
        wishes = [
            LeaseRequest(ask.client, ask.selection, time)
            for ask, time in zip(self._numbered(batch), times, strict=False)
        ]
        actual = self.run(self.store.messages.lease(wishes))
        self.agree_each(actual, self.model.lease(wishes), self.same_lease)
        held = [
            LeaseRef(wish.client, leased.message.id, leased.token)
            for wish, answer in zip(wishes, actual, strict=True)
            if isinstance(answer, list)
            for leased in answer
        ]
        self._pass(later)
        if end != "no":
            self._end(held, end)
        return multiple(*held)

    @rule(
        first=leases,
        more=st.lists(leases, max_size=2),
        end=st.sampled_from(["ack", "nack", "extend"]),
        delays=st.lists(mostly(None, 0.0, -1.0, 1000.0, 3000.0), min_size=3, max_size=3),
        times=st.lists(seconds, min_size=3, max_size=3),
    )
    def end_leases(
        self, first: LeaseRef, more: list[LeaseRef], end: str, delays: list[float | None], times: list[float]
    ) -> None:
        """End leases taken at any time, some of them twice."""
        self._end([first, *more], end, delays, times)

    def _somebody_else(self, client: int) -> int:
        return next((number for number in self.model.names if number != client), NOBODY)

    def _end(
        self, held: list[LeaseRef], end: str, delays: Iterable[float | None] = (), times: Iterable[float] = ()
    ) -> None:
        """After attempts with forged tokens, and by clients that are not the holders, which change nothing."""
        forged = [msgspec.structs.replace(lease, token=-lease.token) for lease in held]
        forged += [msgspec.structs.replace(lease, client=self._somebody_else(lease.client)) for lease in held]
        for attempt in ("ack", "nack", "extend"):
            refused: list[object] = self.run(
                getattr(self.store.messages, attempt)(endings(attempt, forged, delays, times))
            )
            assert all(isinstance(answer, LeaseLost) for answer in refused)
        requests = endings(end, held, delays, times)
        actual, expected = self.run(getattr(self.store.messages, end)(requests)), getattr(self.model, end)(requests)
        for answer, wanted in zip(actual, expected, strict=True):
            assert type(answer) is type(wanted) if isinstance(wanted, StafetteError) else answer == wanted

    # Time and upkeep

    @rule(
        seconds=seconds | mostly(2000.0, 90_000.0),
        upkeep=st.lists(
            st.sampled_from(["leases", "leases", "delayed", "expired", "discarded", "keys", "sessions"]), max_size=3
        ),
        one_by_one=st.booleans(),
    )
    def pass_time(self, seconds: float, upkeep: list[str], one_by_one: bool) -> None:
        """Upkeep comes late, does only part of its work, or does not come at all."""
        self._pass(seconds)
        for work in upkeep:
            if work == "leases":
                self._agree_on_moved(self.store.maintenance.expire_leases, self.model.expire_leases(), one_by_one)
            elif work == "delayed":
                self._agree_on_moved(self.store.maintenance.promote_delayed, self.model.promote_delayed(), one_by_one)
            elif work == "discarded":
                assert self._deleted_in_steps(1 if one_by_one else 3) == self.model.delete_discarded()
            elif work == "expired":
                self._agree_on_dropped(self.store.maintenance.drop_expired, self.model.drop_expired(), one_by_one)
            elif work == "sessions":
                self._agree_on_dropped(self.store.maintenance.forget_sessions, self.model.forget_sessions(), one_by_one)
            else:
                self._agree_on_dropped(self.store.maintenance.forget_keys, self.model.forget_keys(), one_by_one)

    def _pass(self, seconds: float) -> None:
        if seconds:
            self.run(self.world.pass_time(seconds))
            self.model.now += seconds

    def _deleted_in_steps(self, limit: int) -> int:
        deleted, entries = 0, PLENTY
        while entries:
            messages, entries = self.run(self.store.maintenance.delete_discarded(limit=limit, grace=0))
            assert messages <= limit
            deleted += messages
        return deleted

    def _agree_on_moved(
        self,
        work: Callable[..., Coroutine[Any, Any, dict[str | None, int]]],
        expected: Counter[str | None],
        one_by_one: bool,
    ) -> None:
        actual: Counter[str | None] = Counter()
        while part := self.run(work(limit=1 if one_by_one else PLENTY)):
            assert not one_by_one or list(part.values()) == [1]
            actual.update(part)
        assert actual == expected

    def _agree_on_dropped(self, work: Callable[..., Coroutine[Any, Any, int]], expected: int, one_by_one: bool) -> None:
        for _ in range(expected if one_by_one else 0):
            assert self.run(work(limit=1)) == 1
        assert self.run(work(limit=PLENTY)) == (0 if one_by_one else expected)

    # Brokers and sessions

    @rule(target=brokers, name=st.sampled_from(["north", "south"]), seconds=seconds)
    def join_broker(self, name: str, seconds: float) -> int:
        broker = self.run(self.store.brokers.join(name, seconds=seconds))
        assert broker not in self.model.brokers
        self.model.join_broker(broker, name, seconds)
        return broker

    @rule(broker=brokers, seconds=seconds, leaves=mostly(False, True))
    def renew_broker(self, broker: int, seconds: float, leaves: bool) -> None:
        if leaves:
            self.run(self.store.brokers.leave(broker))
            self.model.leave_broker(broker)
        actual = self.run(self.store.brokers.renew(broker, seconds=seconds))
        assert actual is self.model.renew_broker(broker, seconds)
        assert self.run(self.store.brokers.sessions(broker)) == self.model.broker_sessions(broker)

    @rule(
        target=sessions,
        clients=st.lists(people, min_size=1, max_size=3),
        numbers=st.lists(mostly(None, 1, 2), min_size=3, max_size=3),
        secret=mostly(None, "hash"),
        broker=brokers,
    )
    def take_sessions(self, clients: list[int], numbers: list[int | None], secret: str | None, broker: int) -> Any:
        claims = [
            Claim(client, secret or self.model.secret_of(client), number)
            for client, number in zip(map(self.number, clients), numbers, strict=False)
        ]
        return self._agree_on_sessions(claims, broker)

    @rule(target=sessions, session=sessions, more=st.lists(people, max_size=2), broker=brokers)
    def continue_session(self, session: tuple[int, int], more: list[int], broker: int) -> Any:
        known = self.model.sessions.get(session[0])
        claims = [Claim(session[0], None, known.number if known else None)]
        return self._agree_on_sessions([*claims, *(Claim(self.number(other)) for other in more)], broker)

    def _agree_on_sessions(self, claims: list[Claim], broker: int) -> Any:
        actual = self.real(self.store.clients.take_sessions(claims, broker))
        both = self.agree(actual, outcome(self.model.take_sessions, claims, broker))
        taken = []
        for claim, answer, session in zip(claims, *both, strict=True) if both else ():
            if isinstance(answer, Taken):
                assert isinstance(session, ModelSession), (claim, session)
                session.token = answer.token
                taken.append((claim.client, answer.token))
            else:
                assert type(answer) is session
        assert self.run(self.store.brokers.sessions(broker)) == self.model.broker_sessions(broker)
        return multiple(*taken)

    @rule(first=sessions, more=st.lists(sessions, max_size=2), forged=mostly(False, True), for_good=st.booleans())
    def release_sessions(
        self, first: tuple[int, int], more: list[tuple[int, int]], forged: bool, for_good: bool
    ) -> None:
        released = [(client, -token if forged else token) for client, token in [first, *more]]
        self.run(self.store.clients.release_sessions(released, for_good=for_good))
        self.model.release_sessions(released, for_good=for_good)

    # After every step

    @invariant()
    def all_queues_look_the_same(self) -> None:
        queues = self.run(self.store.queues.all())
        expected = sorted(self.model.queues.values(), key=lambda queue: queue.name)
        self.agree_each([queues], [expected], self.same_queue)

    @invariant()
    def all_messages_look_the_same(self) -> None:
        rows = self.run(
            self.world.connection.fetch(
                "SELECT b.* FROM stafette.queues AS q,"
                " stafette.browse(NULL, q.name, NULL, $1, 10000000) WITH ORDINALITY AS b ORDER BY q.name, b.ordinality",
                PLENTY,
            )
        )
        expected = [message for queue in sorted(self.model.queues) for message in self.model.browse(queue, None)]
        self.agree_each([[Message(*row[3:13]) for row in rows]], [expected], self.same_message)

    @invariant()
    def nothing_else_is_stored(self) -> None:
        for state in STATES:
            rows = self.run(self.world.connection.fetchval(f"SELECT count(*) FROM stafette.{state}"))
            assert rows == self.model.stored(state), state

    @invariant()
    def all_clients_and_brokers_look_the_same(self) -> None:
        assert self.run(self.store.monitoring.overview()) == self.model.overview()
        expected = sorted(self.model.clients.values(), key=lambda client: client.name)
        self.agree_each([self.run(self.store.clients.all())], [expected], self.same_client)


@pytest.mark.slow
def test_the_store_does_what_its_model_does(databases: Databases, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues_module, "PURGE_STEP", 2)  # so that a purge takes several
    with asyncio.Runner() as runner:
        url = runner.run(databases.make())
        runner.run(schema.migrate(url))
        quick = f"{url}&synchronous_commit=off"  # a crash is not among the rules
        store = runner.run(Store.open(quick, connections=1, unsafe_durability=True))
        world = World(runner, store, runner.run(connect(quick)))

        class Machine(StoreMachine):
            def __init__(self) -> None:
                super().__init__(world)

        try:
            run_state_machine_as_test(
                Machine,
                settings=settings(
                    max_examples=300,
                    stateful_step_count=25,
                    print_blob=True,
                    suppress_health_check=[
                        HealthCheck.too_slow,
                        HealthCheck.filter_too_much,
                        HealthCheck.data_too_large,
                    ],
                ),
            )
        finally:
            runner.run(world.connection.close())
            runner.run(store.close())
            runner.run(databases.drop(url))
