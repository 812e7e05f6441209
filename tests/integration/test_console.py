"""What operators look at: queues, messages, clients, and what a search finds. Nothing of it changes anything."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from stafette import errors
from stafette.database.clients import Identity
from stafette.database.console import Console
from stafette.database.messages import LeaseRequest, NackRequest, SendRequest
from stafette.database.store import Store
from stafette.database.views import MessageFilter, MessagePage, MessageState, NameCount, Which
from stafette.model import Draft, Leased, QueueOptions, Selection
from tests.support.actors import ADMIN

A_CONTEXT = 10**12  # larger than any id


@pytest.fixture
def console(store: Store) -> Console:
    return Console(store.pool)


@pytest.fixture
async def alice(store: Store) -> Identity:
    identity = await store.clients.register("alice")
    await store.clients.register("bob", secret="a hash")
    await store.queues.create(identity.id, "jobs", QueueOptions(max_deliveries=1))
    await store.queues.create(identity.id, "Audit", QueueOptions(exclude_own=True, dead_letter="jobs"))
    return identity


async def send(store: Store, *sends: SendRequest) -> list[int]:
    ids: list[int] = []
    for answer in await store.messages.send(sends):
        assert isinstance(answer, list), answer
        ids += answer
    return ids


async def lease(store: Store, client: Identity, queue: str = "jobs") -> Leased:
    [answer] = await store.messages.lease([LeaseRequest(client.id, Selection(queue), 1000)])
    assert isinstance(answer, list), answer
    return answer[0]


async def in_every_state(store: Store, alice: Identity) -> dict[MessageState, int]:
    """One message of each kind in jobs: its id by state."""
    held_id, dead_id, delayed_id, ready_id = await send(
        store,
        SendRequest(alice.id, Draft(("jobs",), b"held", priority=9)),
        SendRequest(alice.id, Draft(("jobs",), b"dead", priority=8)),
        SendRequest(alice.id, Draft(("jobs",), b"delayed", delay=1000)),
        SendRequest(
            alice.id, Draft(("jobs",), b"ready", receiver="bob", context=A_CONTEXT, headers={"a": "b"}, ttl=1000)
        ),
    )
    held, died = await lease(store, alice), await lease(store, alice)
    assert (held.message.id, died.message.id) == (held_id, dead_id)
    assert await store.messages.nack([NackRequest(died.message.id, died.token)]) == [None]
    return {"ready": ready_id, "delayed": delayed_id, "leased": held_id, "dead": dead_id}


async def all_pages(console: Console, queue: str, limit: int, **options: object) -> list[MessagePage]:
    pages = [await console.messages(queue, limit=limit, **options)]  # type: ignore[arg-type]
    while pages[-1].next:
        pages.append(await console.messages(queue, limit=limit, after=pages[-1].next, **options))  # type: ignore[arg-type]
    return pages


def ids(page: MessagePage) -> list[int]:
    return [message.id for message in page.messages]


# Queues


async def test_queues_are_listed_with_the_numbers_of_the_last_stock(
    console: Console, store: Store, alice: Identity
) -> None:
    await in_every_state(store, alice)
    before, _ = await console.queues(text="JOB")
    assert [(row.ready, row.delayed, row.leased, row.dead) for row in before] == [(0, 0, 0, 0)]
    await store.maintenance.count_all_messages(pause=0, force=True)
    [jobs], following = await console.queues(text="JOB")
    assert (jobs.name, jobs.creator, jobs.owner, jobs.max_deliveries) == ("jobs", "alice", None, 1)
    assert (jobs.ready, jobs.delayed, jobs.leased, jobs.dead) == (1, 1, 1, 1)
    assert jobs.oldest_at is not None
    assert following is None


async def test_queues_are_told_apart_by_whether_they_are_personal(console: Console, alice: Identity) -> None:
    everything, _ = await console.queues()
    personal, _ = await console.queues(personal=True)
    common, _ = await console.queues(personal=False)
    assert {row.name: row.owner for row in personal} == {"@alice": "alice", "@bob": "bob"}
    assert {row.name: row.dead_letter for row in common} == {"Audit": "jobs", "jobs": None}
    assert {row.name for row in everything} == {row.name for row in (*personal, *common)}


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("name", ["one", "three", "two", "void"]),
        ("ready", ["three", "two", "one", "void"]),
        ("oldest", ["two", "one", "three", "void"]),
    ],
)
async def test_queues_come_in_the_order_asked_for_page_by_page(
    console: Console, store: Store, alice: Identity, any_database: str, order: str, expected: list[str]
) -> None:
    for name, count in (("one", 1), ("two", 2), ("three", 3), ("void", 0)):
        await store.queues.create(alice.id, name)
        for _ in range(count):
            await send(store, SendRequest(alice.id, Draft((name,), b"")))
    connection = await asyncpg.connect(any_database)
    await connection.execute(
        "UPDATE stafette.ready AS r SET arrived_at = now() - interval '1 hour' FROM stafette.queues AS q"
        " WHERE q.id = r.queue_id AND q.name = 'two'"
    )
    await connection.close()
    await store.maintenance.count_all_messages(pause=0, force=True)
    found: list[str] = []
    after: str | None = None
    for _ in range(8):
        rows, after = await console.queues(order=order, personal=False, after=after, limit=1)  # type: ignore[arg-type]
        found += [row.name for row in rows]
        if after is None:
            break
    assert [name for name in found if name in expected] == expected
    assert len(found) == len(set(found)) == 6


async def test_a_queue_is_counted_when_asked_for(console: Console, store: Store, alice: Identity) -> None:
    await in_every_state(store, alice)
    await send(store, *(SendRequest(alice.id, Draft(("jobs",), b"")) for _ in range(2)))
    jobs = await console.queue("jobs")
    assert (jobs.ready, jobs.delayed, jobs.leased, jobs.dead, jobs.exact) == (3, 1, 1, 1, True)
    assert jobs.top_senders == [NameCount(name="alice", count=3)]
    assert jobs.top_receivers == [NameCount(name="", count=2), NameCount(name="bob", count=1)]
    assert jobs.oldest_at is not None
    assert jobs.oldest_at <= jobs.counted_at


async def test_a_long_queue_is_as_long_as_at_the_last_stock(
    console: Console, store: Store, alice: Identity, any_database: str
) -> None:
    await fill(any_database, "jobs", 10_001)
    unknown = await console.queue("jobs")
    assert (unknown.ready, unknown.exact) == (10_001, False)
    await fill(any_database, "jobs", 4_999)
    await store.maintenance.count_all_messages(pause=0, force=True)
    await fill(any_database, "jobs", 5)
    jobs = await console.queue("jobs")
    assert (jobs.ready, jobs.exact) == (15_000, False)
    assert jobs.counted_at == (await console.stock()).at
    assert jobs.top_senders == [NameCount(name="alice", count=10_001)]


async def fill(url: str, queue: str, count: int, *, body: str = "'body'::bytea") -> None:
    """Many messages of alice for anyone, of all priorities, numbered n from 1."""
    connection = await asyncpg.connect(url)
    await connection.execute(
        f"""
        INSERT INTO stafette.ready (id, queue_id, receiver_id, sender_id, rank, deliveries, arrived_at, body)
        SELECT nextval('stafette.message_id'), q.id, 0, c.id, n % 10, 0, now(), {body}
        FROM stafette.queues AS q, stafette.clients AS c, generate_series(1, $2) AS n
        WHERE q.name = $1 AND c.name = 'alice'
        """,
        queue,
        count,
    )
    await connection.close()


@pytest.mark.parametrize("call", ["queue", "messages", "queue_history", "message"])
async def test_a_queue_that_is_not_there_is_said_to_be_so(console: Console, call: str) -> None:
    more: dict[str, object] = {"queue_history": {"since": datetime.now(UTC)}, "message": {"id": 1}}.get(call, {})  # type: ignore[assignment]
    with pytest.raises(errors.QueueNotFound, match="no queue nowhere"):
        await getattr(console, call)("nowhere", **more)


async def test_a_queue_that_is_not_there_cannot_be_purged(console: Console) -> None:
    with pytest.raises(errors.QueueNotFound, match="no queue nowhere"):
        await console.purge(ADMIN, "nowhere")


# Messages


@pytest.mark.parametrize("limit", [1, 3, 7, 1000])
async def test_pages_hold_every_message_once_in_the_order_of_the_lanes(
    console: Console, store: Store, alice: Identity, limit: int
) -> None:
    sends = [
        SendRequest(alice.id, Draft(("jobs",), b"", priority=1 + n % 3, receiver=(None, "alice", "bob")[n % 7 % 3]))
        for n in range(20)
    ]
    sent = await send(store, *sends, SendRequest(alice.id, Draft(("Audit",), b"elsewhere")))
    lanes = {None: 0, "alice": 1, "bob": 2}
    expected = sorted(range(20), key=lambda n: (lanes[sends[n].draft.receiver], -sends[n].draft.priority, n))
    pages = await all_pages(console, "jobs", limit)
    assert [message for page in pages for message in ids(page)] == [sent[n] for n in expected]
    assert sum(page.looked_at for page in pages) == 20
    assert all(len(page.messages) == limit for page in pages[:-1])


async def test_each_state_has_its_own_list(console: Console, store: Store, alice: Identity) -> None:
    expected = await in_every_state(store, alice)
    rows = {}
    for state, message_id in expected.items():
        page = await console.messages("jobs", state=state)
        assert ids(page) == [message_id], state
        [rows[state]] = page.messages
    assert all(row.state == state and row.preview == state_body(state) for state, row in rows.items())
    ready = rows["ready"]
    assert (ready.receiver, ready.context, ready.headers, ready.size) == ("bob", A_CONTEXT, {"a": "b"}, 5)
    assert ready.expires_at is not None
    assert rows["delayed"].due_at is not None
    assert (rows["leased"].holder, rows["leased"].deliveries) == ("alice", 1)
    assert rows["leased"].leased_until is not None
    assert rows["dead"].died_at is not None


def state_body(state: str) -> bytes:
    return b"held" if state == "leased" else state.encode()


@pytest.mark.parametrize("state", ["delayed", "leased", "dead"])
async def test_the_other_states_have_pages_too(
    console: Console, store: Store, alice: Identity, any_database: str, state: MessageState
) -> None:
    await send(store, *(SendRequest(alice.id, Draft((("jobs", "Audit")[n % 2],), b"%d" % n)) for n in range(20)))
    more = {"delayed": ", now()", "leased": ", 1, 1, now()", "dead": ", now()"}[state]
    connection = await asyncpg.connect(any_database)
    await connection.execute(f"INSERT INTO stafette.{state} SELECT r.*{more} FROM stafette.ready AS r")
    await connection.close()
    pages = await all_pages(console, "jobs", 3, state=state)
    bodies = [message.preview for page in pages for message in page.messages]
    assert bodies == [b"%d" % n for n in range(0, 20, 2)]
    last = await all_pages(console, "jobs", 3, state=state, where=MessageFilter(text="8"))
    assert [message.preview for page in last for message in page.messages] == [b"8", b"18"]


FILTERS = {
    "sender": MessageFilter(sender="bob"),
    "receiver": MessageFilter(receiver="alice"),
    "nobody": MessageFilter(receiver=""),
    "context": MessageFilter(context=3),
    "priority": MessageFilter(priority=4),
    "lane": MessageFilter(receiver="bob", priority=4),
    "sender and priority": MessageFilter(sender="alice", priority=4),
    "sender and receiver": MessageFilter(sender="alice", receiver="bob"),
    "context and sender": MessageFilter(context=3, sender="alice"),
    "all": MessageFilter(context=1, sender="alice", receiver="", priority=4, text="7"),
    "old": MessageFilter(older_than=1800),
    "new": MessageFilter(newer_than=1800),
    "old and of a priority": MessageFilter(older_than=1800, priority=4),
    "text": MessageFilter(text="Número 1"),
    "other letters": MessageFilter(text="número 1"),
    "stranger": MessageFilter(sender="mallory"),
    "to a stranger": MessageFilter(receiver="mallory"),
}


@pytest.mark.parametrize("name", FILTERS)
async def test_filters_apply_before_paging(
    console: Console, store: Store, alice: Identity, any_database: str, name: str
) -> None:
    where = FILTERS[name]
    clients = {"alice": alice.id, "bob": (await store.clients.register("bob")).id}
    senders = [("alice", "bob")[n % 3 % 2] for n in range(30)]
    drafts = [
        Draft(
            ("jobs",),
            f"Número {n}".encode(),
            receiver=(None, "alice", "bob")[n % 5 % 3],
            context=(None, 1, 3)[n % 7 % 3],
            priority=3 + n % 2,
        )
        for n in range(30)
    ]
    sent = await send(
        store,
        *(SendRequest(clients[sender], draft) for sender, draft in zip(senders, drafts, strict=True)),
        *(SendRequest(alice.id, Draft(("Audit",), b"7", context=3, priority=4)) for _ in range(3)),
    )
    connection = await asyncpg.connect(any_database)
    old = set(sent[:10])
    await connection.execute(
        "UPDATE stafette.ready SET arrived_at = arrived_at - interval '1 hour' WHERE id = ANY ($1)", list(old)
    )
    await connection.close()

    def fits(number: int, draft: Draft) -> bool:
        return (
            where.sender in (None, senders[number])
            and where.receiver in (None, draft.receiver or "")
            and where.context in (None, draft.context)
            and where.priority in (None, draft.priority)
            and (where.older_than is None or sent[number] in old)
            and (where.newer_than is None or sent[number] not in old)
            and (where.text or "") in draft.body.decode()
        )

    expected = sorted(sent[n] for n, draft in enumerate(drafts) if fits(n, draft))
    for limit in (1, 4, 100):
        pages = await all_pages(console, "jobs", limit, where=where)
        assert sorted(message for page in pages for message in ids(page)) == expected
        assert all(len(page.messages) <= limit for page in pages)


async def test_a_page_ends_when_it_has_looked_at_enough(
    console: Console, store: Store, alice: Identity, any_database: str
) -> None:
    await fill(any_database, "jobs", 30_010, body="convert_to('number ' || n, 'UTF8')")
    last = MessageFilter(text="number 30009")  # of the last rank, and there the last
    first = await console.messages("jobs", where=last)
    assert (first.messages, first.looked_at) == ([], 30_000)
    assert first.next is not None
    second = await console.messages("jobs", where=last, after=first.next)
    assert ([message.preview for message in second.messages], second.looked_at) == ([b"number 30009"], 10)
    assert second.next is None
    full = await console.messages("jobs", where=MessageFilter(text="number 1"), limit=2)
    assert len(full.messages) == 2
    assert full.next is not None


async def test_a_search_of_bodies_ends_when_it_has_read_enough(
    console: Console, store: Store, alice: Identity, any_database: str
) -> None:
    await fill(any_database, "jobs", 90, body="convert_to(repeat('x', 1000000), 'UTF8')")
    page = await console.messages("jobs", where=MessageFilter(text="y"))
    assert (page.messages, page.looked_at) == ([], 68)  # with the 68th it has read more than 64 MiB
    assert page.next is not None
    rest = await console.messages("jobs", where=MessageFilter(text="y"), after=page.next)
    assert (rest.messages, rest.looked_at, rest.next) == ([], 22, None)
    assert (await console.messages("jobs")).looked_at == 50


async def test_messages_past_their_time_are_not_shown(
    console: Console, store: Store, alice: Identity, any_database: str
) -> None:
    await send(store, SendRequest(alice.id, Draft(("jobs",), b"", ttl=1000)))
    connection = await asyncpg.connect(any_database)
    await connection.execute("UPDATE stafette.ready SET expires_at = now()")
    await connection.close()
    assert (await console.messages("jobs")).messages == []


@pytest.mark.parametrize("after", ["", "x", "1", "1.2", "1.2.3.4.5", "1.2.", "1.2.3; drop", "1.2.99999999999999999999"])
async def test_a_place_that_is_none_is_refused(console: Console, alice: Identity, after: str) -> None:
    with pytest.raises(errors.InvalidRequest, match="where a page"):
        await console.messages("jobs", after=after)
    with pytest.raises(errors.InvalidRequest, match="where a page"):
        await console.client_messages("alice", "sent", after=f"0.{after}")
    with pytest.raises(errors.InvalidRequest, match="where a page"):
        await console.queues(after=after)


async def test_what_cannot_be_asked_is_refused(console: Console, alice: Identity) -> None:
    for limit in (0, 1001):
        with pytest.raises(errors.InvalidRequest, match=f"limit {limit} is not between 1 and 1000"):
            await console.messages("jobs", limit=limit)
    with pytest.raises(errors.InvalidRequest, match="gone is not ready, delayed, leased or dead"):
        await console.messages("jobs", state="gone")  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidRequest, match="lost is neither sent nor waiting"):
        await console.client_messages("alice", "lost")  # type: ignore[arg-type]


async def test_one_message_is_shown_whole_in_whichever_state(console: Console, store: Store, alice: Identity) -> None:
    expected = await in_every_state(store, alice)
    [long] = await send(store, SendRequest(alice.id, Draft(("jobs",), b"x" * 1000, priority=1)))
    for state, message_id in expected.items():
        found = await console.message("jobs", message_id)
        assert found is not None
        assert (found.id, found.state, found.body) == (message_id, state, state_body(state))
        assert await console.message("Audit", message_id) is None
    whole = await console.message("jobs", long)
    assert whole is not None
    assert whole.body == b"x" * 1000
    [row] = (await console.messages("jobs", where=MessageFilter(priority=1))).messages
    assert (row.preview, row.size) == (b"x" * 120, 1000)
    assert await console.message("jobs", 4711) is None


async def test_looking_changes_and_locks_nothing(
    console: Console, store: Store, alice: Identity, any_database: str
) -> None:
    await in_every_state(store, alice)
    connection = await asyncpg.connect(any_database)
    async with connection.transaction():
        locked = "SELECT id FROM stafette.ready FOR UPDATE"
        await connection.fetch(locked)
        assert len((await console.messages("jobs")).messages) == 1  # it does not wait for who has the lock
    await connection.close()
    assert (await store.queues.count("jobs")).ready == 1


# Clients


async def test_clients_are_listed_by_name_and_by_whether_they_are_online(
    console: Console, store: Store, alice: Identity
) -> None:
    broker = await store.brokers.join("here", seconds=1000)
    await store.clients.take_sessions([alice.id], broker)
    rows, following = await console.clients(limit=1)
    rest, end = await console.clients(limit=1, after=following)
    assert [(row.name, row.broker, row.has_secret) for row in (*rows, *rest)] == [
        ("alice", "here", False),
        ("bob", None, True),
    ]
    assert rows[0].online_since is not None
    assert (rest[0].online_since, end) == (None, None)
    assert [row.name for row in (await console.clients(online=True))[0]] == ["alice"]
    assert [row.name for row in (await console.clients(online=False))[0]] == ["bob"]
    assert [row.name for row in (await console.clients(text="OB"))[0]] == ["bob"]


async def test_a_client_is_shown_with_its_part_in_what_is_ready(
    console: Console, store: Store, alice: Identity
) -> None:
    expected = await in_every_state(store, alice)
    await send(
        store,
        *(SendRequest(alice.id, Draft(("Audit",), b"", receiver="bob")) for _ in range(3)),
        SendRequest(alice.id, Draft(("@bob",), b"")),
    )
    shown, addressed = await console.client("alice"), await console.client("bob")
    assert shown.personal_queue == "@alice"
    assert shown.sent == [NameCount(name=name, count=count) for name, count in (("Audit", 3), ("@bob", 1), ("jobs", 1))]
    assert (shown.waiting, addressed.sent, addressed.leases) == ([], [], [])
    assert {count.name: count.count for count in addressed.waiting} == {"Audit": 3, "@bob": 1, "jobs": 1}
    assert [(message.id, message.state) for message in shown.leases] == [(expected["leased"], "leased")]
    with pytest.raises(errors.ClientNotFound, match="there is no client nobody"):
        await console.client("nobody")


@pytest.mark.parametrize(("which", "name"), [("sent", "alice"), ("waiting", "bob")])
@pytest.mark.parametrize("limit", [1, 4, 100])
async def test_a_clients_messages_have_pages_over_all_queues(
    console: Console, store: Store, alice: Identity, which: Which, name: str, limit: int
) -> None:
    bob = await store.clients.register("bob")
    queues = ("jobs", "Audit", "@bob")
    sent = await send(
        store,
        *(
            SendRequest(
                alice.id, Draft((queues[n % 3],), b"", priority=1 + n % 4, receiver=None if n % 3 == 2 else "bob")
            )
            for n in range(12)
        ),
        SendRequest(bob.id, Draft(("jobs",), b"of another, for anyone")),
    )
    found: list[int] = []
    after: str | None = None
    for _ in range(20):
        page = await console.client_messages(name, which, after=after, limit=limit)
        found += ids(page)
        assert len(page.messages) <= limit
        after = page.next
        if after is None:
            break
    assert sorted(found) == sent[:12]
    with pytest.raises(errors.ClientNotFound):
        await console.client_messages("nobody", which)


# Search


async def test_a_search_finds_names_in_any_case_and_messages_by_number(
    console: Console, store: Store, alice: Identity
) -> None:
    expected = await in_every_state(store, alice)
    found = await console.search("AUD")
    assert (found.queues, found.clients, found.messages) == (["Audit"], [], [])
    found = await console.search("ali")
    assert (found.queues, found.clients) == (["@alice"], ["alice"])
    assert [message.id for message in (await console.search(str(A_CONTEXT))).messages] == [
        expected["ready"]
    ]  # its context
    for state, message_id in expected.items():
        messages = (await console.search(str(message_id))).messages
        assert [(message.id, message.state) for message in messages] == [(message_id, state)]
    nothing = await console.search("99999999999999999999999999")
    assert (nothing.queues, nothing.clients, nothing.messages) == ([], [], [])


async def test_a_search_finds_a_ready_message_among_many_lanes(console: Console, store: Store, alice: Identity) -> None:
    for n in range(10):
        await store.queues.create(alice.id, f"q{n}")
    sent = await send(
        store,
        *(
            SendRequest(
                alice.id,
                Draft((f"q{n * 7 % 10}",), b"", priority=1 + n * 3 % 10, receiver=(None, "alice", "bob")[n % 3]),
            )
            for n in range(200)
        ),
    )
    for message_id in sent:
        assert [message.id for message in (await console.search(str(message_id))).messages] == [message_id]


async def test_a_search_gives_as_many_as_it_may(console: Console, store: Store, alice: Identity) -> None:
    [last_id] = await send(store, SendRequest(alice.id, Draft(("jobs",), b"")))
    number = last_id + 10
    sent = await send(store, *(SendRequest(alice.id, Draft(("jobs",), b"", context=number)) for _ in range(20)))
    assert number in sent
    messages = (await console.search(str(number), limit=3)).messages
    assert len(messages) == 3
    assert messages[0].id == number  # the one with that id comes first
    assert len((await console.search("o", limit=1)).queues) == 1


# Brokers


async def test_brokers_are_listed_with_what_they_published(console: Console, store: Store, alice: Identity) -> None:
    ended = await store.brokers.join("a", seconds=0)
    living = await store.brokers.join("b", seconds=1000)
    await store.clients.take_sessions([alice.id], living)
    await store.brokers.publish_metrics(living, {"answered": 5})
    await store.brokers.publish_metrics(4711, {"answered": 5})
    first, second = await console.brokers()
    assert (first.id, first.alive, first.clients, first.figures, first.figures_at) == (ended, False, 0, None, None)
    assert (second.id, second.name, second.alive, second.clients) == (living, "b", True, 1)
    assert second.figures == {"answered": 5}
    assert second.figures_at is not None
    assert second.figures_at - second.started_at < timedelta(hours=1)
