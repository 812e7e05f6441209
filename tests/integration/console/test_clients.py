"""What the console shows of clients, and what it finds."""

from __future__ import annotations

import pytest

from stafette import errors
from stafette.database.clients import Claim, Identity
from stafette.database.console import Console
from stafette.database.messages import SendRequest
from stafette.database.store import Store
from stafette.database.views import NameCount, Which
from stafette.model import Draft
from tests.support.console_messages import A_CONTEXT, ids, in_every_state, send

# Clients


async def test_clients_are_listed_by_name_and_by_whether_they_are_online(
    console: Console, store: Store, alice: Identity
) -> None:
    broker = await store.brokers.join("here", seconds=1000)
    await store.clients.take_sessions([Claim(alice.id)], broker)
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
