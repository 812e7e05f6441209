"""What operators do: changes that no client may make, who may make them, and the record of it."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from stafette import errors
from stafette.database import laboratory
from stafette.database.audit import Actor
from stafette.database.brokers import Disconnect, Drain
from stafette.database.clients import Claim, Taken
from stafette.database.console import Console
from stafette.database.messages import LeaseRequest, NackRequest, SendRequest
from stafette.database.store import Store
from stafette.model import Draft, QueueOptions, Selection
from tests.support.actors import ADMIN

# Queues and clients


async def test_a_queue_of_an_operator_is_like_any_other(console: Console, store: Store) -> None:
    alice = await store.clients.register("alice")
    await console.create_queue(ADMIN, "graveyard")
    options = QueueOptions(exclude_own=True, max_body=10, max_deliveries=3, dead_letter="graveyard")
    made = await console.create_queue(ADMIN, "jobs", options)
    assert (made.name, made.creator, made.ready, made.dead_letter) == ("jobs", "operator", 0, "graveyard")
    assert (made.exclude_own, made.max_body, made.max_deliveries) == (True, 10, 3)
    assert [queue.creator for queue in await store.queues.all() if not queue.owner] == ["operator", "operator"]
    assert (await store.queues.get("jobs")).creator == "operator"
    assert [(row.name, row.creator) for row in (await console.queues(text="jobs"))[0]] == [("jobs", "operator")]
    [answer] = await store.messages.send([SendRequest(alice.id, Draft(("jobs",), b"hello"))])
    assert isinstance(answer, list)
    with pytest.raises(errors.QueueExists):
        await console.create_queue(ADMIN, "jobs")
    with pytest.raises(errors.InvalidRequest, match="personal"):
        await console.create_queue(ADMIN, "@jobs")
    with pytest.raises(errors.QueueNotFound):
        await console.create_queue(ADMIN, "others", QueueOptions(dead_letter="nowhere"))


async def test_nobody_is_not_an_operator_to_those_who_ask_through_a_broker(console: Console, store: Store) -> None:
    await console.create_queue(ADMIN, "jobs")
    for attempt in (
        store.queues.create(None, "others"),  # type: ignore[arg-type]
        store.queues.delete(None, "jobs"),  # type: ignore[arg-type]
        store.queues.purge(None, "jobs"),  # type: ignore[arg-type]
    ):
        with pytest.raises(errors.ClientNotFound):
            await attempt


async def test_an_operator_deletes_queues_but_not_personal_ones(console: Console, store: Store) -> None:
    alice = await store.clients.register("alice")
    await console.create_queue(ADMIN, "jobs")
    await store.messages.send([SendRequest(alice.id, Draft(("jobs",), b""))])
    with pytest.raises(errors.QueueNotEmpty):
        await console.delete_queue(ADMIN, "jobs")
    await console.delete_queue(ADMIN, "jobs", force=True)
    with pytest.raises(errors.QueueNotFound):
        await console.delete_queue(ADMIN, "jobs")
    with pytest.raises(errors.PermissionDenied, match="delete its client instead"):
        await console.delete_queue(ADMIN, "@alice", force=True)


async def test_an_operator_empties_any_queue(console: Console, store: Store) -> None:
    alice = await store.clients.register("alice")
    await store.messages.send(
        [SendRequest(alice.id, Draft(("@alice",), b"")), SendRequest(alice.id, Draft(("@alice",), b"", delay=1000))]
    )
    assert await console.purge(ADMIN, "@alice") == 2
    assert await console.purge(ADMIN, "@alice") == 0


async def test_an_operator_revives_or_buries_the_dead(console: Console, store: Store) -> None:
    alice = await store.clients.register("alice")
    await console.create_queue(ADMIN, "jobs", QueueOptions(max_deliveries=1))

    async def let_one_die() -> None:
        [answer] = await store.messages.lease([LeaseRequest(alice.id, Selection("jobs"))])
        assert isinstance(answer, list)
        await store.messages.nack([NackRequest(alice.id, answer[0].message.id, answer[0].token)])

    await store.messages.send([SendRequest(alice.id, Draft(("jobs",), b""))])
    await let_one_die()
    assert await console.redrive(ADMIN, "jobs") == 1
    await let_one_die()
    assert (await console.delete_dead(ADMIN, "jobs"), await console.redrive(ADMIN, "jobs")) == (1, 0)


async def test_an_operator_deletes_clients_that_are_offline(console: Console, store: Store) -> None:
    alice = await store.clients.register("alice", secret="a hash")
    broker = await store.brokers.join("here", seconds=1000)
    await store.clients.take_sessions([Claim(alice.id, alice.secret)], broker)
    with pytest.raises(errors.AlreadyOnline):
        await console.delete_client(ADMIN, "alice")
    await store.brokers.leave(broker)
    await console.delete_client(ADMIN, "alice")
    with pytest.raises(errors.ClientNotFound):
        await console.delete_client(ADMIN, "alice")


# Commands to brokers


async def test_commands_reach_the_broker_that_they_are_for(console: Console, store: Store, any_database: str) -> None:
    alice, bob = await store.clients.register("alice"), await store.clients.register("bob")
    here, gone = await store.brokers.join("here", seconds=1000), await store.brokers.join("gone", seconds=0)
    [taken] = await store.clients.take_sessions([Claim(alice.id)], here)
    assert isinstance(taken, Taken)
    await store.clients.take_sessions([Claim(bob.id)], gone)
    heard: asyncio.Queue[str] = asyncio.Queue()
    connection = await asyncpg.connect(any_database)
    await connection.add_listener(f"stafette_commands_{here}", lambda *command: heard.put_nowait(command[-1]))
    assert await console.disconnect(ADMIN, "alice")
    assert not await console.disconnect(ADMIN, "bob")
    await console.drain(ADMIN, here)
    assert [await heard.get(), await heard.get()] == ["", ""]  # only woken
    assert await store.brokers.take_commands(gone) == []
    assert await store.brokers.take_commands(here) == [Disconnect(alice.id, taken.token), Drain()]
    await connection.close()
    with pytest.raises(errors.ClientNotFound):
        await console.disconnect(ADMIN, "nobody")
    with pytest.raises(errors.InvalidRequest, match=f"no broker {gone} that is alive"):
        await console.drain(ADMIN, gone)


# Operators


async def test_a_role_is_claimed_once(console: Console) -> None:
    assert await console.operator_secret("admin") is None
    claims = await asyncio.gather(*(console.claim_operator(ADMIN, "admin", f"hash {n}") for n in range(8)))
    assert sum(claims) == 1
    assert await console.operator_secret("admin") == f"hash {claims.index(True)}"
    assert await console.operator_secret("viewer") is None
    await console.set_operator_secret(ADMIN, "admin", "another")
    assert not await console.claim_operator(ADMIN, "admin", "late")
    assert await console.operator_secret("admin") == "another"
    await console.set_operator_secret(ADMIN, "admin", None)
    assert await console.claim_operator(ADMIN, "admin", "anew")


async def test_there_are_two_roles(console: Console) -> None:
    with pytest.raises(errors.InvalidRequest):
        await console.claim_operator(ADMIN, "owner", "hash")  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidRequest):
        await console.open_session(Actor("owner", "::1"), b"token", seconds=10)


async def test_a_session_lasts_until_its_time_or_secret_is_over(console: Console, any_database: str) -> None:
    await console.set_operator_secret(ADMIN, "admin", "hash")
    for number, role in enumerate(("admin", "admin", "viewer", "admin")):
        await console.open_session(Actor(role, "::1"), b"%d" % number, seconds=1000)
    assert [await console.session(b"%d" % n) for n in range(5)] == ["admin", "admin", "viewer", "admin", None]
    await console.close_session(b"0")
    connection = await asyncpg.connect(any_database)
    await connection.execute("UPDATE stafette.operator_sessions SET ends_at = now() WHERE token_hash = '1'")
    await connection.close()
    assert [await console.session(b"%d" % n) for n in range(4)] == [None, None, "viewer", "admin"]
    await console.set_operator_secret(ADMIN, "admin", "another")
    assert [await console.session(b"%d" % n) for n in range(4)] == [None, None, "viewer", None]


async def test_what_changes_something_writes_its_line_and_what_fails_none(console: Console, store: Store) -> None:
    alice = await store.clients.register("alice")
    broker = await store.brokers.join("here", seconds=1000)
    await store.clients.take_sessions([Claim(alice.id)], broker)
    await console.create_queue(ADMIN, "jobs")
    await store.messages.send([SendRequest(alice.id, Draft(("jobs",), b"")) for _ in range(2)])
    with pytest.raises(errors.QueueNotEmpty):
        await console.delete_queue(ADMIN, "jobs")
    with pytest.raises(errors.AlreadyOnline):
        await console.delete_client(ADMIN, "alice")
    await console.purge(ADMIN, "jobs")
    await console.redrive(ADMIN, "jobs")
    await console.delete_dead(ADMIN, "jobs")
    await console.delete_queue(ADMIN, "jobs", force=True)
    await console.set_secret(ADMIN, "alice", "hash")
    assert await console.disconnect(ADMIN, "alice")
    await console.drain(ADMIN, broker)
    await store.brokers.leave(broker)
    assert not await console.disconnect(ADMIN, "alice")
    await console.delete_client(ADMIN, "alice")
    assert await console.claim_operator(ADMIN, "viewer", "hash")
    assert not await console.claim_operator(ADMIN, "viewer", "another")
    await console.set_operator_secret(ADMIN, "viewer", None)
    await console.open_session(ADMIN, b"token", seconds=10)
    lines = await console.audit.lines()
    assert {(line.role, line.address) for line in lines} == {("admin", "127.0.0.1")}
    assert [(line.action, line.subject, line.detail) for line in reversed(lines)] == [
        ("create queue", "jobs", ""),
        ("purge", "jobs", "2 messages"),
        ("redrive", "jobs", "0 messages"),
        ("delete dead messages", "jobs", "0 messages"),
        ("delete queue", "jobs", "with its messages"),
        ("set secret", "alice", ""),
        ("disconnect", "alice", ""),
        ("drain", "here", f"broker {broker}"),
        ("delete client", "alice", ""),
        ("set operator secret", "viewer", ""),
        ("remove operator secret", "viewer", ""),
        ("log in", "console", ""),
    ]


async def test_what_was_done_is_noted_newest_first(console: Console, any_database: str) -> None:
    for number in range(5):
        await console.audit.record(ADMIN, "purge", f"queue {number}", "3 messages")
    lines = await console.audit.lines(limit=2)
    assert [line.subject for line in lines] == ["queue 4", "queue 3"]
    more = await console.audit.lines(before=lines[-1].id)
    assert [line.subject for line in more] == ["queue 2", "queue 1", "queue 0"]
    assert (more[0].role, more[0].address, more[0].action) == ("admin", "127.0.0.1", "purge")
    assert (more[0].detail, lines[0].at >= more[0].at) == ("3 messages", True)
    connection = await asyncpg.connect(any_database)
    await connection.execute("ALTER TABLE stafette.audit ALTER COLUMN id RESTART WITH 100003")
    await connection.close()
    await console.audit.record(Actor("viewer", "::1"), "login", "")
    assert [line.id for line in await console.audit.lines()] == [100_003, 5, 4]


# The laboratory


async def test_the_laboratory_keeps_operators_and_does_not_empty_what_they_made(
    console: Console, store: Store, any_database: str
) -> None:
    await console.set_operator_secret(ADMIN, "admin", "hash")
    await console.open_session(ADMIN, b"token", seconds=1000)
    await console.create_queue(ADMIN, "precious")
    with pytest.raises(errors.InvalidRequest, match="holds clients and queues that the laboratory did not make"):
        await laboratory.empty(any_database)
    await console.delete_queue(ADMIN, "precious")
    await laboratory.empty(any_database)
    assert await console.operator_secret("admin") == "hash"
    connection = await asyncpg.connect(any_database)
    await connection.execute("COMMENT ON SCHEMA stafette IS NULL")
    await connection.close()
