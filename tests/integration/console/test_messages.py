"""What the console shows of messages. Nothing of it changes anything."""

from __future__ import annotations

import asyncpg
import pytest

from stafette import errors
from stafette.database.clients import Identity
from stafette.database.console import Console
from stafette.database.messages import SendRequest
from stafette.database.store import Store
from stafette.database.views import MessageFilter, MessageState
from stafette.model import Draft
from tests.support.console_messages import A_CONTEXT, all_pages, fill, ids, in_every_state, send

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
    if state != "delayed":
        await connection.execute(
            f"UPDATE stafette.{state} AS m SET queue_id = q.id FROM stafette.queues AS q WHERE q.store_id = m.queue_id"
        )
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
