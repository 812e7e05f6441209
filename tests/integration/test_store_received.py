"""What was received is kept until it is seen, and no session reads that has moved: the database's part in it."""

from __future__ import annotations

from typing import Any

import pytest

from stafette import errors
from stafette.database.clients import Claim, Identity, Taken
from stafette.database.messages import BatchFull, GaveUp, LeaseRequest, ReadRequest, SendRequest
from stafette.database.store import Store
from stafette.model import Draft, Message, Selection

SESSION = 4711
JOBS = Selection("jobs", count=2)


class Reader:
    """A client with a session at a broker."""

    def __init__(self, store: Store, identity: Identity, broker: int, token: int) -> None:
        self.store = store
        self.id = identity.id
        self.broker = broker
        self.token = token

    async def receive(self, request: int, selection: Selection = JOBS, **origin: Any) -> list[bytes]:
        read = ReadRequest(self.id, selection, token=self.token, session=SESSION, request=request, **origin)
        [answer] = await self.store.messages.receive([read], broker=self.broker)
        if isinstance(answer, errors.StafetteError):
            raise answer
        return [message.body for message in answer]

    async def kept(self) -> list[tuple[int, bytes]]:
        rows = await self.store.pool.fetch("SELECT request, body FROM stafette.received ORDER BY request, body")
        return [tuple(row) for row in rows]


@pytest.fixture
async def alice(store: Store) -> Reader:
    """A reader, and five messages in two priorities."""
    identity = await store.clients.register("alice")
    broker = await store.brokers.join("north", seconds=60)
    [taken] = await store.clients.take_sessions([Claim(identity.id, session=SESSION)], broker)
    assert isinstance(taken, Taken)
    await store.queues.create(identity.id, "jobs")
    drafts = [Draft(("jobs",), b"%d" % number, priority=5 + number % 2) for number in range(5)]
    await store.messages.send([SendRequest(identity.id, draft) for draft in drafts])
    return Reader(store, identity, broker, taken.token)


async def ready(store: Store) -> list[Message]:
    return await store.messages.browse("jobs")


async def test_the_same_request_gets_the_same_messages_and_others_get_others(alice: Reader) -> None:
    assert await alice.receive(7) == [b"1", b"3"]
    assert await alice.receive(7, again=True) == [b"1", b"3"]
    assert await alice.receive(8, again=True) == [b"0", b"2"]  # it had got nothing: the broker never saw it
    by_arrival = Selection("jobs", count=9, order="arrival")
    assert await alice.receive(9, by_arrival) == [b"4"]
    assert await alice.receive(9, by_arrival, again=True) == [b"4"]
    assert await alice.receive(10, again=True) == []


async def test_who_shows_the_session_of_another_client_gets_other_messages(alice: Reader, store: Store) -> None:
    assert await alice.receive(7) == [b"1", b"3"]
    mallory = await store.clients.register("mallory")
    [taken] = await store.clients.take_sessions([Claim(mallory.id, session=SESSION)], alice.broker)
    assert isinstance(taken, Taken)
    impostor = Reader(store, mallory, alice.broker, taken.token)
    assert await impostor.receive(7, again=True) == [b"0", b"2"]
    assert await alice.receive(7, again=True) == [b"1", b"3"]


async def test_a_batch_has_both_first_and_repeated_requests(alice: Reader) -> None:
    assert await alice.receive(7) == [b"1", b"3"]
    origin: dict[str, Any] = {"token": alice.token, "session": SESSION}
    requests = [
        ReadRequest(alice.id, Selection("jobs"), request=8, **origin),
        ReadRequest(alice.id, JOBS, request=7, again=True, **origin),
        ReadRequest(alice.id, Selection("nowhere"), request=9, again=True, **origin),
        ReadRequest(alice.id, Selection("jobs"), request=10, again=True, **origin),
    ]
    first, repeated, fault, late = await alice.store.messages.receive(requests, broker=alice.broker)
    assert isinstance(first, list)
    assert isinstance(repeated, list)
    assert isinstance(late, list)
    assert [[message.body for message in answer] for answer in (first, repeated, late)] == [
        [b"0"], [b"1", b"3"], [b"2"],
    ]  # fmt: skip
    assert isinstance(fault, errors.QueueNotFound)


@pytest.mark.parametrize("verb", ["receive", "lease"])
async def test_repeated_answers_keep_within_the_bytes_of_a_batch(alice: Reader, verb: str) -> None:
    def requests(*numbers: int, again: bool = False) -> list[ReadRequest]:
        kind = LeaseRequest if verb == "lease" else ReadRequest
        return [
            kind(alice.id, JOBS, token=alice.token, session=SESSION, request=number, again=again) for number in numbers
        ]

    read = getattr(alice.store.messages, verb)
    first = await read(requests(7, 8), broker=alice.broker)
    assert await read(requests(7, 8, again=True), broker=alice.broker) == first
    repeated, late = await read(requests(7, 8, again=True), broker=alice.broker, budget=150)  # one has 202 bytes
    assert repeated == first[0]
    assert isinstance(late, BatchFull)


async def test_what_was_seen_is_forgotten_and_nothing_else(alice: Reader) -> None:
    await alice.receive(7)
    await alice.receive(8, Selection("jobs"))
    assert await alice.kept() == [(7, b"1"), (7, b"3"), (8, b"0")]
    await alice.receive(9, Selection("jobs"), seen=(7, 6))
    assert await alice.kept() == [(8, b"0"), (9, b"2")]
    await alice.store.messages.forget_seen(SESSION, [8, 9])
    assert await alice.kept() == []


async def test_what_was_given_up_is_in_its_place_again(alice: Reader) -> None:
    before = await ready(alice.store)
    await alice.receive(7)
    stranger = GaveUp(alice.id + 1, SESSION, 7)
    assert await alice.store.messages.give_back_received([stranger, GaveUp(alice.id, SESSION, 6)]) == []
    assert await alice.store.messages.give_back_received([GaveUp(alice.id, SESSION, 7)]) == ["jobs"]
    assert await ready(alice.store) == before
    assert await alice.kept() == []
    assert await alice.store.messages.give_back_received([GaveUp(alice.id, SESSION, 7)]) == []
    assert await ready(alice.store) == before


async def test_what_comes_back_to_a_queue_that_is_gone_is_gone_too(alice: Reader) -> None:
    await alice.receive(7)
    await alice.store.queues.delete(alice.id, "jobs", force=True)
    assert await alice.receive(7, Selection("@alice"), again=True) == []
    assert await alice.store.messages.give_back_received([GaveUp(alice.id, SESSION, 7)]) == []
    assert await alice.kept() == []


async def test_what_was_on_its_way_at_a_purge_is_not_purged(alice: Reader) -> None:
    await alice.receive(7)
    assert await alice.store.queues.purge(alice.id, "jobs") == 3
    assert await alice.receive(7, again=True) == [b"1", b"3"]
    assert await alice.store.messages.give_back_received([GaveUp(alice.id, SESSION, 7)]) == ["jobs"]
    assert [message.body for message in await ready(alice.store)] == [b"1", b"3"]


async def test_what_expires_on_its_way_is_repeated_but_not_handed_out_anew(alice: Reader) -> None:
    await alice.receive(7)
    await alice.store.pool.fetch("UPDATE stafette.received SET expires_at = now()")
    assert await alice.receive(7, again=True) == [b"1", b"3"]
    await alice.store.messages.give_back_received([GaveUp(alice.id, SESSION, 7)])
    assert await alice.receive(8, Selection("jobs", count=9)) == [b"0", b"2", b"4"]
    assert await alice.store.maintenance.drop_expired(limit=10) == 2


async def test_what_nobody_names_is_forgotten_after_a_while(alice: Reader) -> None:
    await alice.receive(7)
    await alice.receive(8, Selection("jobs"))

    async def forget(seconds: float, limit: int) -> int:
        return (await alice.store.maintenance.forget_received(seconds=seconds, limit=limit))[0]

    assert await forget(seconds=60, limit=10) == 0
    await alice.store.pool.fetch(
        "UPDATE stafette.received SET received_at = now() - interval '2 min' WHERE request = 7"
    )
    assert await forget(seconds=60, limit=1) == 1
    assert await forget(seconds=60, limit=10) == 1
    assert await alice.kept() == [(8, b"0")]


async def test_no_read_takes_anything_for_a_session_that_has_moved(alice: Reader, store: Store) -> None:
    south = await store.brokers.join("south", seconds=60)
    before = await ready(store)
    await store.clients.take_sessions([Claim(alice.id, session=SESSION)], south)
    with pytest.raises(errors.NotAuthenticated):
        await alice.receive(7)
    lease = LeaseRequest(alice.id, JOBS, 30.0, token=alice.token, session=SESSION, request=8)
    [refused] = await store.messages.lease([lease], broker=alice.broker)
    assert isinstance(refused, errors.NotAuthenticated)
    assert await ready(store) == before


async def test_a_session_moves_when_the_reads_of_its_broker_are_done(alice: Reader, store: Store) -> None:
    """And none of its reads begins meanwhile: the lock is one that both sides take."""
    async with store.pool._connections.acquire() as reading, reading.transaction():
        await reading.fetch(
            "SELECT * FROM stafette.receive_batch($1, $2, $3, $4, $5, $6, NULL, 1e7::bigint, $7, $8, $9, $10)",
            [alice.id], ["jobs"], [None], [None], [False], [1], alice.broker, [alice.token], [SESSION], [7],
        )  # fmt: skip
        locks = await store.pool.fetch(
            "SELECT mode FROM pg_locks WHERE relation = stafette.session_lock($1)::regclass", alice.broker
        )
        assert [tuple(lock) for lock in locks] == [("RowShareLock",)]
