"""Clients that keep the broker waiting, or leave answers unread, are held back and then hung up on."""

from __future__ import annotations

import asyncio

from stafette.broker.limits import MEBIBYTE, UNREAD_BYTES
from stafette.protocol import messages as wire
from tests.support.hostile_peers import Broker, Peer, hello
from tests.support.protocol_client import request

# Idle timeouts


async def test_who_never_says_hello_is_hung_up_on(broker: Broker, time_is_up: None) -> None:
    silent, half = await broker.peer(), await broker.peer()
    half.write(hello("half")[:9])
    await broker.until(lambda: half.connection._reader.partial)
    broker.runtime.drop_idle()
    assert await silent.rest() == await half.rest() == []
    assert broker.runtime.core.admission.refusals["too slow"] == 2


async def test_who_never_finishes_a_frame_is_hung_up_on(broker: Broker, time_is_up: None) -> None:
    peer, patient = await broker.open("mallory"), await broker.open("patient")
    peer.write(request(2, 2, b"whole") + request(2, 3, b"half")[:-1])
    await peer.answer()
    broker.runtime.drop_idle()
    assert await peer.rest() == []
    assert await patient.ask(2, 2, b"idle, but owes nothing") == wire.Echoed(2, b"idle, but owes nothing")


async def test_time_counts_from_the_last_frame_that_came_to_its_end(broker: Broker) -> None:
    peer = await broker.open("busy")
    first, second = request(2, 2, b"first"), request(2, 3, b"second")
    peer.write(first[:-1])
    await broker.until(lambda: peer.connection.session in broker.runtime.core.idle_timeouts)
    broker.runtime.core.idle_timeouts._deadlines[peer.connection.session] = long_ago = float("-inf")
    peer.write(first[-1:] + second[:-1])
    await peer.answer()
    broker.runtime.drop_idle()
    peer.write(second[-1:])
    assert await peer.answer() == wire.Echoed(3, b"second")
    peer.write(first[:5])
    await broker.until(lambda: peer.connection.session in broker.runtime.core.idle_timeouts)
    broker.runtime.core.idle_timeouts._deadlines[peer.connection.session] = long_ago
    peer.write(first[5:7])  # some more, but not the end
    await broker.until(lambda: len(peer.connection._reader._partial_frame) == 7)
    broker.runtime.drop_idle()
    assert await peer.rest() == []


# Readers


async def paused(broker: Broker, name: str) -> Peer:
    """A client that has asked for much and reads nothing."""
    peer = await broker.peer(limit=1000, buffer=10_000)
    await peer.hello(name)
    for number in range(32):
        peer.write(request(2, 2 + number, bytes(MEBIBYTE)))
    await broker.until(lambda: peer.connection.session.write_paused)
    return peer


async def test_who_never_reads_is_held_and_then_hung_up_on(broker: Broker, time_is_up: None) -> None:
    peer = await paused(broker, "deaf")
    connection = peer.connection
    for _ in range(20):
        await broker.serves()
        assert connection.unsent <= UNREAD_BYTES + MEBIBYTE + 100
        assert len(connection._reader._partial_frame) <= MEBIBYTE + 100
        assert connection.session.in_flight <= 1
    broker.runtime.drop_idle()
    await broker.until(lambda: connection.session not in broker.runtime.core.connected)
    assert broker.runtime.core.admission.refusals["slow reader"] == 1


async def test_what_was_asked_before_is_held_back_too(broker: Broker) -> None:
    await broker.healthy.create_queue("large", max_body=MEBIBYTE)
    await broker.healthy.send("large", bytes(MEBIBYTE))
    peer = await broker.peer(limit=1000, buffer=10_000)
    await peer.hello("deaf")
    peer.write(*(request(17, 2 + number, "large") for number in range(50)))
    connection = peer.connection
    await broker.until(lambda: connection.session.write_paused)
    for _ in range(20):
        await broker.serves()
        assert connection.unsent <= UNREAD_BYTES + MEBIBYTE + 1000
    assert [len((await peer.answer()).messages) for _ in range(50)] == [1] * 50  # type: ignore[union-attr]


async def test_who_hangs_up_in_the_middle_leaves_nothing_behind(broker: Broker) -> None:
    peer = await broker.open("hasty")
    connection = peer.connection
    peer.write(*(request(23, 2 + number) for number in range(200)), request(11, 300, ["healthy"], 1e9))
    await peer.answer()
    await peer.close()
    await broker.until(lambda: connection.session not in broker.runtime.core.connected)


async def test_who_reads_slowly_keeps_its_connection(broker: Broker, time_is_up: None) -> None:
    peer = await paused(broker, "slow")
    connection, unsent = peer.connection, peer.connection.unsent
    await peer.skip(4 * MEBIBYTE)
    await broker.until(lambda: connection.unsent <= unsent - 2 * MEBIBYTE)
    broker.runtime.drop_idle()
    await broker.serves()
    assert connection.session in broker.runtime.core.connected
    broker.runtime.drop_idle()  # and nothing has been read since
    await broker.until(lambda: connection.session not in broker.runtime.core.connected)


async def test_who_catches_up_gets_everything(broker: Broker) -> None:
    peer = await paused(broker, "late")
    for number in range(32):
        answer = await peer.answer()
        assert isinstance(answer, wire.Echoed)
        assert (answer.id, len(answer.payload)) == (2 + number, MEBIBYTE)
    assert await peer.ask(2, 99, b"on") == wire.Echoed(99, b"on")
    assert peer.connection.session not in broker.runtime.core.idle_timeouts


async def test_an_answer_larger_than_the_bound_reaches_who_reads_it(broker: Broker) -> None:
    body = bytes(15 * MEBIBYTE)
    assert len(body) > UNREAD_BYTES
    await broker.healthy.create_queue("large", max_body=len(body))
    await broker.healthy.send("large", body)
    message, _ = await asyncio.gather(broker.healthy.receive("large"), broker.serves())
    assert message is not None
    assert message.body == body


async def test_who_is_hung_up_on_and_does_not_read_is_not_waited_for(broker: Broker, time_is_up: None) -> None:
    peer = await broker.peer(limit=1000, buffer=10_000)
    await peer.hello("deaf")
    peer.write(request(2, 2, bytes(6 * MEBIBYTE)))
    connection = peer.connection
    await broker.until(lambda: connection.unsent > 0)
    peer.write(request(None))
    await broker.until(lambda: connection.transport is not None and connection.transport.is_closing())
    assert not connection.session.write_paused
    broker.runtime.drop_idle()
    await broker.until(lambda: connection.session not in broker.runtime.core.connected)
