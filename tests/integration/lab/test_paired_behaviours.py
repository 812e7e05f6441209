"""Behaviours that ask and answer, and mixes of requests."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

from pyarrow import parquet

from stafette.client.aio import Client
from stafette.database.store import Store
from stafette.lab.behaviours import check
from stafette.lab.behaviours.behaviour import ClientContext
from stafette.lab.behaviours.database_only import DatabaseOnly
from stafette.lab.behaviours.tola import Tola
from stafette.load.direct import DirectConnections
from stafette.model import Message
from stafette.trace import Trace
from tests.support.behaviour_stage import QUEUES, Stage, at_once, steps

GUARD = 30.0
"""Seconds after which a step that should have ended is not going to."""


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
