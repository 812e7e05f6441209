"""Every behaviour on a real broker: a few steps of it have the effect that its report describes."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

import stafette.aio
from stafette.broker.runtime import Runtime
from stafette.client.aio import Client
from stafette.database.store import Store
from stafette.errors import ClientNotFound
from stafette.lab.behaviours import BUILT_IN, Behaviour, ClientContext, check, find
from stafette.lab.behaviours.database_only import DatabaseOnly
from stafette.lab.behaviours.one_way import read_counter
from stafette.lab.behaviours.tola import Tola
from stafette.load.direct import DirectConnections
from stafette.model import Message
from stafette.trace import Trace
from tests.support.waiting import until

QUEUES = ("q-1", "q-2", "q-3", "q-4")
GUARD = 30.0
"""Seconds after which a step that should have ended is not going to."""


class Stage:
    """One broker, its queues, and the clients of an experiment."""

    def __init__(self, runtime: Runtime, url: str, stack: AsyncExitStack) -> None:
        self.runtime = runtime
        self._url = url
        self._stack = stack

    async def connect(self, name: str) -> Client:
        return await self._stack.enter_async_context(await stafette.aio.connect(self._url, name=name))

    async def enter(
        self, behaviour: str | type[Behaviour], number: int = 1, *, of: int = 1, group: str | None = None,
        others: dict[str, int] | None = None, made: tuple[str, ...] = QUEUES, **parameters: Any,
    ) -> Any:  # fmt: skip
        """Connect a client and let it begin; `of` is how many its group has, `made` the queues made for the run."""
        kind = BUILT_IN[behaviour] if isinstance(behaviour, str) else behaviour
        group = group or kind.__name__.lower()
        client_context = ClientContext(
            group, number, {group: of, **(others or {})}, made, random.Random(f"7:{group}-{number}")
        )
        client = kind(await self.connect(client_context.name), client_context, check(kind, parameters))
        await client.begin()
        return client

    async def stored(self, *queues: str) -> int:
        return sum([(await self.director.queue(queue)).messages for queue in queues or QUEUES])

    def requests(self) -> Counter[str]:
        """What the broker has answered so far, without complaint."""
        return Counter(
            {kind: count for (kind, outcome), count in self.runtime.core.metrics.requests().items() if outcome == "ok"}
        )

    async def open(self) -> None:
        self.director = await self.connect("director")
        for queue in QUEUES:
            await self.director.create_queue(queue)


@pytest.fixture
async def stage(brokers: Callable[..., Awaitable[tuple[Runtime, str]]]) -> AsyncIterator[Stage]:
    runtime, url = await brokers()
    async with AsyncExitStack() as stack:
        stage = Stage(runtime, url, stack)
        await stage.open()
        yield stage


async def steps(client: Behaviour, count: int) -> None:
    for _ in range(count):
        await client.step()


async def at_once(client: Behaviour, count: int) -> None:
    """As in the open loop."""
    await asyncio.gather(*(client.step() for _ in range(count)))


# Senders and readers


async def test_alice_stores_a_message_in_each_target_for_anyone(stage: Stage) -> None:
    alice = await stage.enter("alice", targets=3, size=123, priority=9)
    await alice.step()
    seen = [message for queue in QUEUES for message in await stage.director.browse(queue)]
    assert len(seen) == 3
    assert len({message.queue for message in seen}) == 3
    assert {(message.receiver, message.priority, len(message.body)) for message in seen} == {(None, 9, 123)}


async def test_alice_draws_her_queue_anew_and_only_from_her_own(stage: Stage) -> None:
    alice = await stage.enter("alice", queues=list(QUEUES[:3]))
    await steps(alice, 40)
    assert all([await stage.stored(queue) for queue in QUEUES[:3]])
    assert await stage.stored("q-4") == 0


async def test_alice_can_address_the_clients_of_a_group(stage: Stage) -> None:
    bobs = [await stage.enter("bob", number, of=2, queues=["q-1"]) for number in (1, 2)]
    alice = await stage.enter("alice", others={"bob": 2}, receiver="bob", queues=["q-1"])
    await steps(alice, 20)
    counts = [(await bob.client.waiting_queues())[0].messages for bob in bobs]
    assert all(counts)
    assert sum(counts) == 20


async def test_alices_addressing_their_own_group_leave_themselves_out(stage: Stage) -> None:
    first, second = [await stage.enter("alice", number, of=2, receiver="alice") for number in (1, 2)]
    await steps(first, 5)
    assert await first.client.waiting_queues() == []
    assert sum(queue.messages for queue in await second.client.waiting_queues()) == 5


async def test_bob_empties_the_queues_and_does_not_mind_an_empty_one(stage: Stage) -> None:
    await at_once(await stage.enter("alice"), 10)
    bob = await stage.enter("bob")
    async with asyncio.timeout(GUARD):
        while await stage.stored():
            await bob.step()
    await bob.step()
    assert stage.requests()["Receive"] >= 11


async def test_bob_takes_the_highest_priority_first_and_a_batch_at_once(stage: Stage) -> None:
    for priority in (2, 8, 5):
        await stage.director.send("q-1", b"", priority=priority)
    await (await stage.enter("bob", queues=["q-1"], batch=2)).step()
    assert [message.priority for message in await stage.director.browse("q-1")] == [2]


async def test_rick_takes_what_carl_sent_through_their_queue(stage: Stage) -> None:
    carl = await stage.enter("carl", queues=["q-3"])
    rick = await stage.enter("rick", queues=["q-3"], wait=10)
    parked = asyncio.create_task(rick.step())
    await carl.step()
    await parked
    assert await stage.stored() == 0
    await at_once(carl, 5)
    assert await stage.stored("q-3") == 5
    await at_once(rick, 5)
    assert await stage.stored() == 0


async def test_the_consumer_takes_what_the_producer_writes_again_and_again(stage: Stage) -> None:
    producer = await stage.enter("producer", size={"uniform": [10, 1000]})
    consumer = await stage.enter("consumer", batch=2)
    await at_once(producer, 3)
    assert len({message.body for message in await stage.director.browse("q-1")}) == 1
    await consumer.step()
    assert await stage.stored("q-1") == 1
    await steps(consumer, 2)
    assert await stage.stored() == 0


async def test_with_a_retry_delay_a_read_asks_again_instead_of_waiting_in_the_broker(stage: Stage) -> None:
    rick = await stage.enter("rick", retry_delay=0.001, wait=10)
    polling = asyncio.create_task(rick.step())

    def three_reads() -> bool:
        assert len(stage.runtime.core.waiting) == 0
        return stage.requests()["Receive"] >= 3

    await until(three_reads, stage.director.ping)
    await stage.director.send("q-1", b"at last")
    await polling
    assert await stage.stored() == 0


async def test_after_a_look_in_vain_the_retry_delay_passes(stage: Stage) -> None:
    bob = await stage.enter("bob", retry_delay=0.05)
    started = time.monotonic()
    await bob.step()
    assert time.monotonic() - started >= 0.05
    assert stage.requests()["Receive"] == 1


# Relays


async def test_larry_sends_one_message_to_another_and_then_bounces_what_comes(stage: Stage) -> None:
    larrys = [await stage.enter("larry", number, of=3, size=50, priority=3) for number in (1, 2, 3)]
    assert await stage.stored() == 0, "nothing is sent before the load starts"
    for larry in larrys:
        await larry.step()
    assert await stage.stored() == 3
    before = {message.id: message for queue in QUEUES for message in await stage.director.browse(queue)}
    assert before == {}, "none is for anyone"
    for _ in range(10):
        for larry in larrys:
            await larry.step()
    assert await stage.stored() == 3, "what is taken is sent on, and nothing else"
    assert stage.requests()["Send"] > 3 + 10
    taken = [message for larry in larrys for queue in QUEUES for message in await larry.client.receive_many(queue, 10)]
    assert {(message.receiver != message.sender, len(message.body), message.priority) for message in taken} == {
        (True, 50, 3)
    }


async def test_larry_bounces_a_message_as_it_is(stage: Stage) -> None:
    first, second = [await stage.enter("larry", number, of=2) for number in (1, 2)]
    await first.step()
    [queue] = await second.client.waiting_queues()
    body = (await second.client.peek(queue.name)).body
    await steps(second, 2)
    bounced = [message for queue in QUEUES for message in await first.client.receive_many(queue, 10)]
    assert body in [message.body for message in bounced]
    assert len(bounced) == 2


async def test_a_relay_whose_send_is_refused_sends_a_new_message_later(stage: Stage) -> None:
    first = await stage.enter("larry", 1, of=2)
    with pytest.raises(ClientNotFound):
        await first.step()
    second = await stage.enter("larry", 2, of=2)
    await first.step()
    assert len(await second.client.waiting_queues()) == 1


async def test_the_counter_of_a_one_way_message_grows_at_each_relay(stage: Stage) -> None:
    clients = [await stage.enter("one_way", number, of=2, size=100) for number in (1, 2)]
    for client in clients:
        await client.step()
    await clients[0].client.receive("@oneway-1")  # one message is easier to follow than two
    for relay in range(1, 10):
        await clients[relay % 2].step()
        mine = await clients[(relay + 1) % 2].client.peek(f"@oneway-{(relay + 1) % 2 + 1}")
        assert mine is not None
        assert read_counter(mine.body) == relay
        assert len(mine.body) == 100
    assert sorted(client.largest_counter for client in clients) == [7, 8]


async def test_one_way_clients_keep_their_messages_in_circulation(stage: Stage) -> None:
    clients = [await stage.enter("one_way", number, of=5, wait=0) for number in range(1, 6)]
    for _ in range(20):
        await asyncio.gather(*(at_once(client, 2) for client in clients))
    left = [message for client in clients for message in await client.client.receive_many(f"@{client.client.name}", 10)]
    assert len(left) == 5
    assert max(client.largest_counter for client in clients) > 3


# Pairs


class ListeningTola(Tola):
    """Remembers what she asked and what came back."""

    def __init__(self, client: Client, client_context: ClientContext, parameters: Any) -> None:
        super().__init__(client, client_context, parameters)
        self.heard: list[tuple[int, Message | None]] = []

    async def response(self, queue: str, context: int) -> Message | None:
        message = await super().response(queue, context)
        self.heard.append((context, message))
        return message


async def pairs(stage: Stage, count: int, **parameters: Any) -> tuple[list[Any], list[Any]]:
    others = {"tola": count, "maruja": count}
    numbers = range(1, count + 1)
    tolas = [
        await stage.enter(ListeningTola, n, of=count, group="tola", others=others, queues=["q-2"], **parameters)
        for n in numbers
    ]
    marujas = [await stage.enter("maruja", n, of=count, others=others, queues=["q-2"], size=n) for n in numbers]
    return tolas, marujas


async def test_tola_gets_the_answers_of_her_own_maruja_and_of_nobody_else(stage: Stage) -> None:
    tolas, marujas = await pairs(stage, 2)
    await asyncio.gather(*(steps(client, 5) for client in (*tolas, *marujas)))
    for number, tola in enumerate(tolas, start=1):
        heard = [message for _, message in tola.heard]
        assert [(m.sender, m.receiver, len(m.body)) for m in heard] == [
            (f"maruja-{number}", f"tola-{number}", number)
        ] * 5
    assert await stage.stored() == 0


async def test_tola_does_not_confuse_the_requests_she_has_under_way(stage: Stage) -> None:
    tolas, marujas = await pairs(stage, 2, priority={"uniform": [1, 10]})
    await asyncio.gather(*(at_once(client, 8) for client in (*tolas, *marujas)))
    for tola in tolas:
        assert len(tola.heard) == 8
        assert all(message is not None and message.context == context for context, message in tola.heard)


async def test_tola_gives_up_quietly_when_nobody_answers(stage: Stage) -> None:
    [tola], _ = await pairs(stage, 1, wait=0, patience=0.05)
    await asyncio.wait_for(tola.step(), GUARD)
    assert [message for _, message in tola.heard] == [None]
    assert await stage.stored("q-2") == 1


async def test_maruja_leaves_requests_of_other_groups_unanswered(stage: Stage) -> None:
    maruja = await stage.enter("maruja", queues=["q-2"], partner="tola", others={"tola": 1})
    tola = await stage.connect("tola-1")
    await stage.director.send("q-2", b"", receiver="maruja-1")
    await stage.director.send("q-2", b"")
    await tola.send("q-2", b"", receiver="maruja-1", context=5)
    await steps(maruja, 3)
    assert await stage.stored() == 1
    assert await tola.receive("q-2", context=5) is not None


async def test_maruja_leaves_what_is_for_anyone_unanswered(stage: Stage) -> None:
    maruja = await stage.enter("maruja", queues=["q-2"])
    await stage.director.send("q-2", b"")
    await stage.director.send("q-2", b"", receiver="maruja-1", context=5)
    await steps(maruja, 2)
    assert [message.context for message in await stage.director.receive_many("q-2", 10)] == [5]


async def test_of_each_pair_the_odd_client_asks_and_the_even_one_answers(stage: Stage) -> None:
    clients = [await stage.enter("paired", number, of=4, size=number) for number in range(1, 5)]
    answers = await asyncio.gather(*(at_once(client, 3) for client in clients))
    assert len(answers) == 4
    requests = stage.requests()
    assert requests["Send"] == 12, "three requests and three responses in each pair"
    for client in clients:
        assert (await stage.director.personal_queue(client.client.name)).messages == 0


async def test_the_two_of_a_pair_talk_to_each_other(stage: Stage) -> None:
    asker, answerer = [await stage.enter("paired", number, of=2, size=number) for number in (1, 2)]
    asking = asyncio.create_task(asker.step())
    request = await answerer.client.receive("@paired-2", wait=10)
    assert (request.sender, len(request.body)) == ("paired-1", 1)
    await answerer.client.send("@paired-1", b"somebody else's", context=request.context + 1)
    await answerer.client.reply(request, b"yours")
    await asking
    assert [message.body for message in await asker.client.receive_many("@paired-1", 10)] == [b"somebody else's"]


# Mixes


async def test_the_mix_makes_every_kind_of_request_about_alike(stage: Stage) -> None:
    mix = await stage.enter("mix")
    before = stage.requests()
    await at_once(mix, 200)
    made = stage.requests() - before
    assert set(made) == {"Peek", "WaitingQueues", "Send", "Receive"}
    assert made.total() == 200
    assert min(made.values()) > 30


async def test_the_shares_of_the_mix_are_the_experimenters(stage: Stage) -> None:
    mix = await stage.enter("mix", shares={"echo": 1, "send": 3}, size=10)
    before = stage.requests()
    await at_once(mix, 100)
    made = stage.requests() - before
    assert set(made) == {"Echo", "Send"}
    assert 10 < made["Echo"] < 40


async def test_each_client_of_the_mix_may_make_one_kind_only(stage: Stage) -> None:
    for number, kind in enumerate(("Peek", "WaitingQueues", "Send", "Receive"), start=1):
        mix = await stage.enter("mix", number, of=4, each="client")
        before = stage.requests()
        await at_once(mix, 10)
        assert stage.requests() - before == {kind: 10}


async def test_the_load_for_the_database_makes_the_requests_of_the_mix_without_a_broker(
    database: str, tmp_path: Path
) -> None:
    trace = Trace(tmp_path, run="run", tier="client", node="load-1")
    client_context = ClientContext("load", 1, {"load": 1}, QUEUES, random.Random(7))
    async with (
        await Store.open(database) as store,
        await DirectConnections.open(database, clients=1, trace=trace) as direct,
    ):
        client: Any = await direct.client(client_context.name)
        for queue in QUEUES:
            await store.queues.create((await store.clients.register(client_context.name)).id, queue)
        await at_once(
            DatabaseOnly(client, client_context, check(DatabaseOnly, {"targets": 2, "receiver": "load"})), 100
        )
    await asyncio.to_thread(trace.close)
    rows = [row for file in tmp_path.glob("*.parquet") for row in parquet.read_table(file).to_pylist()]
    assert {row["operation"] for row in rows} == {"peek", "waiting_queues", "send", "receive"}
    assert {row["outcome"] for row in rows} <= {"ok", "empty"}
    assert len(rows) == 100


async def test_an_echo_stores_nothing(stage: Stage) -> None:
    echo = await stage.enter("echo", size=1000, made=())
    before = stage.requests()
    received = stage.runtime.core.metrics.received_bytes
    await at_once(echo, 10)
    assert stage.requests() - before == {"Echo": 10}
    assert stage.runtime.core.metrics.received_bytes - received > 10_000


# One's own

OWN = """
from stafette.lab.behaviours import Behaviour, Parameters

class Settings(Parameters):
    word: str

class Parrot(Behaviour):
    Parameters = Settings

    async def begin(self):
        await self.client.create_queue("perch")

    async def step(self):
        await self.client.send("perch", self.parameters.word)
"""


async def test_a_class_from_a_file_behaves_like_a_built_in_one(stage: Stage, tmp_path: Path) -> None:
    (tmp_path / "parrot.py").write_text(OWN)
    parrot = await stage.enter(find("parrot.py:Parrot", tmp_path), word="hello")
    await parrot.step()
    message = await stage.director.receive("perch")
    assert message is not None
    assert (message.sender, message.text) == ("parrot-1", "hello")
