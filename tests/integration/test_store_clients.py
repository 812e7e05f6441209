"""Clients, their sessions and their queues."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from stafette import errors
from stafette.database.clients import Claim, Taken
from stafette.database.console import Console
from stafette.database.messages import ReadRequest, SendRequest
from stafette.database.monitoring import Overview
from stafette.database.store import Store
from stafette.errors import StafetteError
from stafette.model import Draft, QueueOptions, Selection
from tests.support.actors import ADMIN


async def lapse(url: str) -> None:
    """Let every broker's lease run out."""
    connection = await asyncpg.connect(url)
    await connection.execute("UPDATE stafette.brokers SET alive_until = now()")
    await connection.close()


async def test_a_client_registers_once_and_is_then_identified(store: Store) -> None:
    first = await store.clients.register("alice", mode="read-only", secret="hash")
    again = await store.clients.register("alice", mode="full", secret="other")
    assert first == again
    assert (again.mode, again.secret) == ("read-only", "hash")
    assert (await store.clients.get("alice")).name == "alice"
    assert [client.name for client in await store.clients.all()] == ["alice"]


async def test_registering_at_once_gives_one_client(store: Store) -> None:
    identities = await asyncio.gather(*(store.clients.register("alice") for _ in range(8)))
    assert len({identity.id for identity in identities}) == 1
    assert (await store.monitoring.overview()).queues == 1


@pytest.mark.parametrize("name", ["", "x" * 201, "a\nb", "\x7f"])
async def test_a_bad_name_is_refused(store: Store, name: str) -> None:
    with pytest.raises(errors.InvalidRequest):
        await store.clients.register(name)
    client = await store.clients.register("alice")
    with pytest.raises(errors.InvalidRequest):
        await store.queues.create(client.id, name)


def token_of(answer: Taken | StafetteError) -> int:
    """The token of a session that was opened."""
    assert isinstance(answer, Taken), answer
    return answer.token


async def test_one_live_session_per_name(store: Store, any_database: str) -> None:
    alice, bob = await store.clients.register("alice"), await store.clients.register("bob")
    here, there = await store.brokers.join("here", seconds=1000), await store.brokers.join("there", seconds=1000)

    claims = [Claim(alice.id), Claim(alice.id), Claim(bob.id)]
    first, second, for_bob = await store.clients.take_sessions(claims, here)
    assert isinstance(second, errors.TryAgain)
    assert token_of(first) != token_of(for_bob)
    assert await refusal(store, Claim(alice.id), there) is errors.AlreadyOnline
    assert (await store.clients.get("alice")).broker == "here"

    token = token_of(first)
    await store.clients.release_sessions([(alice.id, token + 1000)])  # not the token of this session
    assert await refusal(store, Claim(alice.id), there) is errors.AlreadyOnline
    await store.clients.release_sessions([(alice.id, token)])
    [again] = await store.clients.take_sessions([Claim(alice.id)], there)
    assert token_of(again) != token
    assert await store.brokers.sessions(there) == {alice.id: token_of(again)}

    await store.brokers.leave(there)
    assert (await store.clients.get("alice")).broker is None
    assert await refusal(store, Claim(alice.id), here) is None


async def refusal(store: Store, claim: Claim, broker: int) -> type[StafetteError] | None:
    """Why a client does not get a session; None: it does."""
    [answer] = await store.clients.take_sessions([claim], broker)
    return None if isinstance(answer, Taken) else type(answer)


async def test_a_broker_that_does_not_renew_loses_its_names(store: Store, any_database: str) -> None:
    alice = await store.clients.register("alice")
    dead, live = await store.brokers.join("dead", seconds=1000), await store.brokers.join("live", seconds=1000)
    await store.clients.take_sessions([Claim(alice.id)], dead)
    assert await store.brokers.renew(dead, seconds=1000) is True
    await lapse(any_database)
    assert (await store.clients.get("alice")).broker is None
    await store.brokers.renew(live, seconds=1000)
    assert await refusal(store, Claim(alice.id), live) is None
    assert await store.brokers.renew(dead, seconds=1000) is False
    assert await store.brokers.sessions(dead) == {}
    assert await store.brokers.renew(4711, seconds=1000) is None


async def test_racing_for_a_name_has_one_winner(store: Store) -> None:
    alice = await store.clients.register("alice")
    brokers = [await store.brokers.join(f"broker {number}", seconds=1000) for number in range(8)]
    answers = await asyncio.gather(*(store.clients.take_sessions([Claim(alice.id)], broker) for broker in brokers))
    assert sum(isinstance(answer, Taken) for [answer] in answers) == 1


async def test_deleting_a_client_takes_its_own_and_leaves_what_it_sent(store: Store) -> None:
    alice, bob = await store.clients.register("alice", secret="hash"), await store.clients.register("bob")
    await store.queues.create(bob.id, "jobs")
    await store.messages.send(
        [
            SendRequest(alice.id, Draft(("jobs",), b"from alice")),
            SendRequest(bob.id, Draft(("jobs", "@alice"), b"for alice", receiver="alice")),
        ]
    )
    broker = await store.brokers.join("here", seconds=1000)
    [taken] = await store.clients.take_sessions([Claim(alice.id, alice.secret)], broker)
    with pytest.raises(errors.AlreadyOnline):
        await Console(store.pool).delete_client(ADMIN, "alice")
    await store.clients.release_sessions([(alice.id, token_of(taken))])

    await Console(store.pool).delete_client(ADMIN, "alice")
    for missing in (
        store.clients.get("alice"),
        store.queues.personal("alice"),
        store.clients.delete("alice", by=bob.id),
    ):
        with pytest.raises(errors.ClientNotFound):
            await missing
    assert isinstance(
        (await store.messages.send([SendRequest(alice.id, Draft(("jobs",), b""))]))[0], errors.ClientNotFound
    )
    [[message]] = await store.messages.receive([ReadRequest(bob.id, Selection("jobs", count=9))])  # type: ignore[misc]
    assert (message.sender, message.body) == ("alice", b"from alice")
    again = await store.clients.register("alice")
    assert again.secret is None
    assert await store.queues.waiting(again.id) == []


async def test_queues_are_made_found_and_listed(store: Store) -> None:
    alice = await store.clients.register("alice")
    options = QueueOptions(exclude_own=True, max_body=10, max_deliveries=3, dead_letter="@alice")
    made = await store.queues.create(alice.id, "jobs", options)
    assert (made.creator, made.owner, made.exclude_own, made.max_body) == ("alice", None, True, 10)
    assert (made.max_deliveries, made.dead_letter, made.messages) == (3, "@alice", 0)
    assert await store.queues.get("jobs") == await store.queues.get(made.id) == made
    with pytest.raises(errors.QueueExists):
        await store.queues.create(alice.id, "jobs")
    assert await store.queues.create(alice.id, "jobs", exist_ok=True) == made
    assert [queue.name for queue in await store.queues.all()] == ["@alice", "jobs"]
    assert [queue.name for queue in await store.queues.all(after="@alice", limit=1)] == ["jobs"]
    assert (await store.queues.personal("alice")).owner == "alice"
    for missing in ("nowhere", 4711):
        with pytest.raises(errors.QueueNotFound):
            await store.queues.get(missing)


async def test_a_queue_is_deleted_when_empty_or_by_force(store: Store) -> None:
    alice, reader = await store.clients.register("alice"), await store.clients.register("reader", mode="read-only")
    await store.queues.create(alice.id, "jobs")
    await store.messages.send([SendRequest(alice.id, Draft(("jobs",), b""))])
    with pytest.raises(errors.QueueNotEmpty):
        await store.queues.delete(alice.id, "jobs")
    with pytest.raises(errors.PermissionDenied):
        await store.queues.delete(reader.id, "jobs")
    with pytest.raises(errors.PermissionDenied):
        await store.queues.delete(alice.id, "@reader")
    with pytest.raises(errors.PermissionDenied):
        await store.queues.create(reader.id, "new")
    with pytest.raises(errors.QueueNotFound):
        await store.queues.delete(alice.id, "nowhere")
    await store.queues.delete(alice.id, "jobs", force=True)
    assert await store.monitoring.overview() == Overview(
        clients=2, online=0, brokers=0, queues=2, ready=0, delayed=0, leased=0, dead=0
    )


async def test_purging_empties_a_queue_but_not_anothers(store: Store) -> None:
    alice, bob = await store.clients.register("alice"), await store.clients.register("bob")
    await store.queues.create(alice.id, "jobs")
    await store.messages.send(
        [SendRequest(alice.id, Draft(("jobs", "@bob"), b"")), SendRequest(alice.id, Draft(("jobs",), b"", delay=1000))]
    )
    assert await store.queues.purge(bob.id, "jobs") == 2
    with pytest.raises(errors.PermissionDenied):
        await store.queues.purge(alice.id, "@bob")
    assert await store.queues.purge(bob.id, "@bob") == 1


async def test_waiting_queues_counts_what_is_addressed_to_me(store: Store) -> None:
    alice, bob = await store.clients.register("alice"), await store.clients.register("bob")
    for name in ("a", "b", "c"):
        await store.queues.create(alice.id, name)
    await store.messages.send(
        [
            SendRequest(alice.id, Draft(("a", "b"), b"", receiver="bob")),
            SendRequest(alice.id, Draft(("b", "@bob"), b"", receiver="bob")),
        ]
    )
    await store.messages.send([SendRequest(alice.id, Draft(("c",), b""))])
    waiting = [(queue.name, queue.messages) for queue in await store.queues.waiting(bob.id)]
    assert waiting == [("b", 2), ("@bob", 1), ("a", 1)]
    assert len(await store.queues.waiting(bob.id, limit=2)) == 2
    assert await store.queues.waiting(alice.id) == []


async def test_a_secret_can_be_set_and_removed(store: Store) -> None:
    await store.clients.register("alice")
    await Console(store.pool).set_secret(ADMIN, "alice", "hash")
    assert (await store.clients.register("alice")).secret == "hash"
    await Console(store.pool).set_secret(ADMIN, "alice", None)
    assert (await store.clients.register("alice")).secret is None
    with pytest.raises(errors.ClientNotFound):
        await Console(store.pool).set_secret(ADMIN, "nobody", "hash")


async def test_what_hellos_touch_does_not_grow_with_the_number_of_clients(store: Store, any_database: str) -> None:
    broker = await store.brokers.join("here", seconds=1000)
    await store.pool.fetch(
        "INSERT INTO stafette.clients (name, registered_at)"
        " SELECT 'client ' || n, now() FROM generate_series(1, 5000) AS n"
    )
    filling = await asyncpg.connect(any_database)  # what it reads is not to be counted
    await filling.execute(
        """
        INSERT INTO stafette.queues (name, creator_id, owner_id) SELECT '@' || name, id, id FROM stafette.clients;
        INSERT INTO stafette.sessions (client_id, broker_id, last_broker_id, token, session)
        SELECT id, 1, 1, id, sha256(int8send(id)) FROM stafette.clients;
        """
    )
    await filling.close()
    connection = await asyncpg.connect(any_database)
    clients = [row[0] for row in await connection.fetch("SELECT id FROM stafette.clients ORDER BY id LIMIT 20")]
    transaction = connection.transaction()
    await transaction.start()
    hellos = [f"client {number}" for number in range(1, 20)] + ["newcomer"]
    await connection.fetch(
        "SELECT * FROM stafette.register_batch($1, $2, $3, $4, $5)",
        hellos, ["full"] * 20, [None] * 20, [True] * 20, clients,
    )  # fmt: skip
    take = "SELECT * FROM stafette.take_sessions($1, $2, $3, $4, $5)"
    tokens = list(range(10_001, 10_021))
    rows = await connection.fetch(take, clients, [None] * 20, clients, tokens, broker)
    assert [row["token"] for row in rows] == tokens
    await connection.execute("SELECT stafette.release_sessions($1, $2, false)", clients, tokens)
    touched = await connection.fetch(
        "SELECT relname, seq_scan, idx_tup_fetch FROM pg_stat_xact_user_tables"
        " WHERE schemaname = 'stafette' AND relname IN ('clients', 'sessions', 'queues')"
    )
    await transaction.rollback()
    await connection.close()
    assert [(row["relname"], row["seq_scan"]) for row in touched if row["seq_scan"]] == []
    assert sum(row["idx_tup_fetch"] for row in touched) < 20 * len(hellos)
