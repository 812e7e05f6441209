"""Sending, reading and looking: the Store's promises about messages, one by one."""

from __future__ import annotations

import pytest

from stafette import errors
from stafette.database.clients import Identity
from stafette.database.messages import ReadRequest, SendRequest
from stafette.database.store import Store
from stafette.model import Draft, Message, QueueOptions, Selection


@pytest.fixture
async def alice(store: Store) -> Identity:
    identity = await store.clients.register("alice")
    await store.queues.create(identity.id, "jobs")
    await store.queues.create(identity.id, "audit")
    return identity


@pytest.fixture
async def bob(store: Store, alice: Identity) -> Identity:
    return await store.clients.register("bob")


async def send(store: Store, sender: Identity, body: bytes, queue: str = "jobs", **fields: object) -> int:
    [answer] = await store.messages.send([SendRequest(sender.id, Draft((queue,), body, **fields))])  # type: ignore[arg-type]
    assert isinstance(answer, list), answer
    return answer[0]


async def receive(store: Store, client: Identity, **fields: object) -> list[bytes]:
    return [message.body for message in await found(store, client, **fields)]


async def found(store: Store, client: Identity, **fields: object) -> list[Message]:
    [answer] = await store.messages.receive([ReadRequest(client.id, Selection(**fields))])  # type: ignore[arg-type]
    assert isinstance(answer, list), answer
    return answer


async def test_a_message_comes_back_as_it_was_sent(store: Store, alice: Identity, bob: Identity) -> None:
    message_id = await send(
        store, alice, b"\x00hello\xff", receiver="bob", priority=7, context=42, headers={"type": "greeting"}
    )
    [message] = await found(store, bob, queue="jobs")
    assert message == Message(
        id=message_id, queue="jobs", sender="alice", receiver="bob", context=42, priority=7,
        arrived_at=message.arrived_at, deliveries=0, headers={"type": "greeting"}, body=b"\x00hello\xff",
    )  # fmt: skip
    assert message.arrived_at.tzinfo is not None
    assert await receive(store, bob, queue="jobs") == []


async def test_ten_comes_first_and_ties_are_broken_by_arrival(store: Store, alice: Identity, bob: Identity) -> None:
    for body, priority in ((b"low", 1), (b"first", 5), (b"second", 5), (b"high", 10)):
        await send(store, alice, body, priority=priority)
    assert await receive(store, bob, queue="jobs", count=4) == [b"high", b"first", b"second", b"low"]


async def test_arrival_order_ignores_priority(store: Store, alice: Identity, bob: Identity) -> None:
    for body, priority, receiver in ((b"1", 1, None), (b"2", 10, "bob"), (b"3", 5, None), (b"4", 7, "bob")):
        await send(store, alice, body, priority=priority, receiver=receiver)
    assert await receive(store, bob, queue="jobs", order="arrival", count=4) == [b"1", b"2", b"3", b"4"]


async def test_own_and_common_messages_are_merged_in_order(store: Store, alice: Identity, bob: Identity) -> None:
    for body, priority, receiver in ((b"d", 2, "bob"), (b"b", 8, None), (b"a", 9, "bob"), (b"c", 5, None)):
        await send(store, alice, body, priority=priority, receiver=receiver)
    assert [*await receive(store, bob, queue="jobs"), *await receive(store, bob, queue="jobs", count=3)] == [
        b"a", b"b", b"c", b"d",
    ]  # fmt: skip


async def test_what_is_addressed_to_another_stays_invisible(store: Store, alice: Identity, bob: Identity) -> None:
    await send(store, alice, b"for bob", receiver="bob")
    assert await receive(store, alice, queue="jobs") == []
    assert await store.messages.browse("jobs", viewer=alice.id) == []
    assert await receive(store, bob, queue="jobs") == [b"for bob"]


async def test_a_message_is_in_all_its_queues_or_in_none(store: Store, alice: Identity, bob: Identity) -> None:
    both, none = await store.messages.send(
        [
            SendRequest(alice.id, Draft(("jobs", "audit"), b"both")),
            SendRequest(alice.id, Draft(("jobs", "nowhere", "audit"), b"none")),
        ]
    )
    assert isinstance(both, list)
    assert len(set(both)) == 2
    assert isinstance(none, errors.QueueNotFound)
    assert await receive(store, bob, queue="jobs", count=9) == [b"both"]
    assert await receive(store, bob, queue="audit", count=9) == [b"both"]


async def test_each_bad_request_of_a_batch_gets_its_own_error(store: Store, alice: Identity, bob: Identity) -> None:
    reader = await store.clients.register("reader", mode="read-only")
    await store.queues.create(alice.id, "small", QueueOptions(max_body=3))
    await store.queues.create(alice.id, "others", QueueOptions(exclude_own=True))
    jobs = ("jobs",)
    cases: list[tuple[SendRequest, type[errors.StafetteError] | None]] = [
        (SendRequest(alice.id, Draft(jobs, b"good 1")), None),
        (SendRequest(alice.id, Draft(("nowhere",), b"")), errors.QueueNotFound),
        (SendRequest(alice.id, Draft(jobs, b"", receiver="nobody")), errors.ClientNotFound),
        (SendRequest(alice.id, Draft(("small",), b"1234")), errors.MessageTooLarge),
        (SendRequest(alice.id, Draft(("small",), b"123")), None),
        (SendRequest(reader.id, Draft(jobs, b"")), errors.PermissionDenied),
        (SendRequest(999, Draft(jobs, b"")), errors.ClientNotFound),
        (SendRequest(alice.id, Draft(("others",), b"", receiver="alice")), errors.InvalidRequest),
        (SendRequest(alice.id, Draft(("@bob",), b"", receiver="alice")), errors.PermissionDenied),
        (SendRequest(alice.id, Draft(jobs, b"", priority=0)), errors.InvalidRequest),
        (SendRequest(alice.id, Draft(jobs, b"", priority=11)), errors.InvalidRequest),
        (SendRequest(alice.id, Draft(jobs, b"", delay=-1)), errors.InvalidRequest),
        (SendRequest(alice.id, Draft(jobs, b"", ttl=0)), errors.InvalidRequest),
        (SendRequest(alice.id, Draft(jobs, b""), key=""), errors.InvalidRequest),
        (SendRequest(alice.id, Draft((), b"")), errors.InvalidRequest),
        (SendRequest(alice.id, Draft(jobs, b"good 2")), None),
    ]
    answers = await store.messages.send([request for request, _ in cases])
    assert [type(answer) if isinstance(answer, Exception) else None for answer in answers] == [
        kind for _, kind in cases
    ]
    assert await receive(store, bob, queue="jobs", count=99) == [b"good 1", b"good 2"]


async def test_a_value_that_postgresql_cannot_hold_hurts_only_its_request(store: Store, alice: Identity) -> None:
    answers = await store.messages.send(
        [
            SendRequest(alice.id, Draft(("jobs",), b"good 1")),
            SendRequest(alice.id, Draft(("jobs\0",), b"")),
            SendRequest(alice.id, Draft(("jobs",), b"", context=2**64)),
            SendRequest(alice.id, Draft(("jobs",), b"", priority=2**40)),
            SendRequest(alice.id, Draft(("jobs",), b"", headers={"zero": "\0"})),
            SendRequest(alice.id, Draft(("jobs",), b"good 2")),
        ]
    )
    assert [isinstance(answer, errors.InvalidRequest) for answer in answers] == [False, True, True, True, True, False]
    assert await receive(store, alice, queue="jobs", count=9) == [b"good 1", b"good 2"]


async def test_each_bad_ask_of_a_batch_gets_its_own_error(store: Store, alice: Identity, bob: Identity) -> None:
    reader = await store.clients.register("reader", mode="read-only")
    await send(store, alice, b"good")
    asks = [
        ReadRequest(reader.id, Selection("jobs")),
        ReadRequest(bob.id, Selection("nowhere")),
        ReadRequest(bob.id, Selection("@alice")),
        ReadRequest(bob.id, Selection(sender="nobody")),
        ReadRequest(bob.id, Selection()),
        ReadRequest(bob.id, Selection("jobs", count=0)),
        ReadRequest(999, Selection("jobs")),
        ReadRequest(bob.id, Selection("jobs")),
    ]
    kinds = [type(answer) for answer in await store.messages.receive(asks)]
    assert kinds == [
        errors.PermissionDenied, errors.QueueNotFound, errors.PermissionDenied, errors.ClientNotFound,
        errors.InvalidRequest, errors.InvalidRequest, errors.ClientNotFound, list,
    ]  # fmt: skip


async def test_read_only_clients_may_look(store: Store, alice: Identity) -> None:
    reader = await store.clients.register("reader", mode="read-only")
    await send(store, alice, b"seen")
    [answer] = await store.messages.peek([ReadRequest(reader.id, Selection("jobs"))])
    assert isinstance(answer, list)
    assert [message.body for message in answer] == [b"seen"]


ASKS = [
    {"queue": queue, "sender": sender, "context": context, "order": order, "count": count}
    for queue in ("jobs", None)
    for sender in ("alice", None)
    for context in (7, None)
    for order in ("priority", "arrival")
    for count in (1, 3)
    if queue or sender or context
]


async def test_peek_shows_what_receive_gives_and_leaves_it(store: Store, alice: Identity, bob: Identity) -> None:
    carol = await store.clients.register("carol")
    for fields in ASKS:
        for body, priority, receiver, sender in (
            (b"1", 1, None, alice), (b"2", 10, "bob", alice), (b"3", 10, "carol", alice), (b"4", 5, None, alice),
            (b"5", 9, None, carol),
        ):  # fmt: skip
            await send(store, sender, body, priority=priority, receiver=receiver, context=7)
        ask = ReadRequest(bob.id, Selection(**fields))  # type: ignore[arg-type]

        [first], [again] = await store.messages.peek([ask]), await store.messages.peek([ask])
        assert isinstance(first, list)
        assert first == again
        assert len(first) == ask.selection.count
        assert [first] == await store.messages.receive([ask])

        await store.queues.purge(alice.id, "jobs")


async def test_reading_by_sender_goes_through_all_queues(store: Store, alice: Identity, bob: Identity) -> None:
    await send(store, alice, b"low", "jobs", priority=1)
    await send(store, alice, b"high", "audit", priority=9)
    await send(store, alice, b"mine", "@bob", priority=5)
    await send(store, alice, b"private", "@alice", priority=10)
    await send(store, bob, b"other sender", "jobs", priority=10)
    assert await receive(store, bob, sender="alice", count=9) == [b"high", b"mine", b"low"]


async def test_reading_by_context(store: Store, alice: Identity, bob: Identity) -> None:
    for body, context, queue in ((b"1", 1, "jobs"), (b"2", 2, "jobs"), (b"3", 2, "audit"), (b"none", None, "jobs")):
        await send(store, alice, body, queue, context=context)
    assert await receive(store, bob, context=2, queue="audit") == [b"3"]
    assert await receive(store, bob, context=2) == [b"2"]
    assert await receive(store, bob, context=3) == []


async def test_a_queue_can_keep_ones_own_messages_from_one(store: Store, alice: Identity, bob: Identity) -> None:
    await store.queues.create(alice.id, "others", QueueOptions(exclude_own=True))
    await send(store, alice, b"from alice", "others", priority=10, context=1)
    await send(store, bob, b"from bob", "others", priority=1, context=1)
    for fields in ({"queue": "others"}, {"context": 1}, {"queue": "others", "order": "arrival"}):
        [answer] = await store.messages.peek([ReadRequest(alice.id, Selection(**fields))])
        assert isinstance(answer, list)
        assert [message.body for message in answer] == [b"from bob"]
    assert await receive(store, alice, sender="alice") == []
    assert [message.body for message in await store.messages.browse("others", viewer=alice.id)] == [b"from bob"]
    assert await receive(store, bob, queue="others", count=2) == [b"from alice"]


async def test_a_message_can_wait_for_a_client_that_registers_later(store: Store, alice: Identity) -> None:
    await send(store, alice, b"welcome", receiver="carol", allow_unknown=True)
    with pytest.raises(errors.ClientNotFound):
        await store.clients.get("carol")
    carol = await store.clients.register("carol")
    assert await receive(store, carol, queue="jobs") == [b"welcome"]


async def test_a_delayed_message_is_ready_when_its_time_comes(store: Store, alice: Identity, bob: Identity) -> None:
    await send(store, alice, b"later", delay=3600)
    await send(store, alice, b"soon", delay=0.001)
    assert await receive(store, bob, queue="jobs") == []
    assert (await store.queues.count("jobs")).delayed == 2
    promoted: dict[str | None, int] = {}
    while not promoted:  # until a millisecond has passed
        promoted = await store.maintenance.promote_delayed(limit=10)
    assert promoted == {"jobs": 1}
    assert await receive(store, bob, queue="jobs", count=9) == [b"soon"]


async def test_an_expired_message_is_never_given_and_then_dropped(store: Store, alice: Identity, bob: Identity) -> None:
    await send(store, alice, b"fleeting", ttl=0.001, context=1)
    await send(store, alice, b"lasting", ttl=3600, context=1)
    while len(await store.messages.browse("jobs")) > 1:  # until a millisecond has passed
        pass
    for fields in ({"queue": "jobs"}, {"sender": "alice"}, {"context": 1}, {"queue": "jobs", "order": "arrival"}):
        [answer] = await store.messages.peek([ReadRequest(bob.id, Selection(**fields))])
        assert isinstance(answer, list)
        assert [message.body for message in answer] == [b"lasting"]
    assert await store.maintenance.drop_expired(limit=10) == 1
    assert (await store.queues.count("jobs")).ready == 1


async def test_a_message_that_expires_before_it_is_due_is_never_given(
    store: Store, alice: Identity, bob: Identity
) -> None:
    await send(store, alice, b"too late", delay=2000, ttl=1000)
    await store.pool.fetch("UPDATE stafette.delayed SET expires_at = now()")
    assert await store.maintenance.drop_expired(limit=10) == 0
    await store.pool.fetch("UPDATE stafette.delayed SET due_at = now()")
    assert await store.maintenance.promote_delayed(limit=10) == {"jobs": 1}
    assert await receive(store, bob, queue="jobs") == []
    assert await store.maintenance.drop_expired(limit=10) == 1


async def test_a_key_makes_a_send_repeatable(store: Store, alice: Identity, bob: Identity) -> None:
    request = SendRequest(alice.id, Draft(("jobs", "audit"), b"once"), key="k")
    [first] = await store.messages.send([request])
    second, third = await store.messages.send([request, request])
    assert first == second == third
    assert isinstance(first, list)
    changed, others = await store.messages.send(
        [
            SendRequest(alice.id, Draft(("jobs", "audit"), b"twice"), key="k"),
            SendRequest(bob.id, Draft(("jobs",), b"bob's own"), key="k"),
        ]
    )
    assert isinstance(changed, errors.KeyConflict)
    assert isinstance(others, list)
    assert await receive(store, bob, queue="jobs", count=9) == [b"once", b"bob's own"]


async def test_a_failed_send_does_not_use_up_its_key(store: Store, alice: Identity) -> None:
    failed, sent = await store.messages.send(
        [
            SendRequest(alice.id, Draft(("nowhere",), b""), key="k"),
            SendRequest(alice.id, Draft(("jobs",), b"retried"), key="k"),
        ]
    )
    assert isinstance(failed, errors.QueueNotFound)
    assert isinstance(sent, list)


async def test_browse_pages_through_a_queue_in_order_of_arrival(store: Store, alice: Identity, bob: Identity) -> None:
    ids = [
        await send(store, alice, b"%d" % number, priority=number % 10 + 1, receiver="bob" if number % 3 else None)
        for number in range(25)
    ]
    pages: list[int] = []
    while page := await store.messages.browse("jobs", after=pages[-1] if pages else None, limit=10):
        pages.extend(message.id for message in page)
    assert pages == ids
    with pytest.raises(errors.PermissionDenied):
        await store.messages.browse("@bob", viewer=alice.id)


async def test_many_asks_for_one_queue_get_different_messages(store: Store, alice: Identity, bob: Identity) -> None:
    for number in range(5):
        await send(store, alice, b"%d" % number)
    answers = await store.messages.receive(
        [
            ReadRequest(bob.id, Selection("jobs")),
            ReadRequest(alice.id, Selection("jobs", count=2)),
            *[ReadRequest(bob.id, Selection("jobs"))] * 4,
        ]
    )
    bodies = [[message.body for message in answer] for answer in answers if isinstance(answer, list)]
    assert bodies == [[b"0"], [b"1", b"2"], [b"3"], [b"4"], [], []]
