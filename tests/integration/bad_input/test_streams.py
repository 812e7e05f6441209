"""Streams of bytes that are none of ours, and one that is."""

from __future__ import annotations

import random

import pytest

from stafette.broker.limits import HELLO_FRAME, MEBIBYTE
from stafette.protocol import messages as wire
from stafette.protocol.frames import HEADER_BYTES
from tests.support.hostile_peers import Broker, codes, hello
from tests.support.protocol_client import request
from tests.support.protocol_examples import EXAMPLES

# Streams that are none


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n",
        bytes.fromhex("16030100a5010000a10303") + bytes(160),  # the beginning of TLS
        bytes(1000),
        b"\xff" * 1000,
        b"\x00\x00\x00\x01\xc1",
        random.Random(3).randbytes(1000),
    ],
    ids=["http", "tls", "zeros", "ones", "never used byte", "random"],
)
async def test_garbage_is_hung_up_on(broker: Broker, garbage: bytes) -> None:
    for peer in (await broker.peer(), await broker.open("mallory")):
        peer.write(garbage)
        assert codes(await peer.rest()) in ([(0, 100)], [(0, 101)], [])
        await broker.serves()


@pytest.mark.parametrize("length", [HELLO_FRAME + 1, 2**31, 2**32 - 1])
async def test_a_huge_length_is_refused_before_the_hello(broker: Broker, length: int) -> None:
    peer = await broker.peer()
    peer.write(length.to_bytes(HEADER_BYTES, "big"))
    assert codes(await peer.rest()) == [(0, 101)]


@pytest.mark.parametrize("length", [16 * MEBIBYTE + 1, 2**32 - 1])
async def test_a_huge_length_is_refused_in_a_session(broker: Broker, length: int) -> None:
    peer = await broker.open("mallory")
    peer.write(request(2, 2, b"before"), length.to_bytes(HEADER_BYTES, "big"))
    assert codes(await peer.rest()) == [(0, 101)]


async def test_half_a_frame_and_then_nothing(broker: Broker) -> None:
    whole = hello("mallory")
    for length in range(len(whole)):
        peer = await broker.peer()
        peer.write(whole[:length])
        await peer.close()
    await broker.until(lambda: len(broker.runtime.core.connected) == 1)


async def test_one_byte_at_a_time_is_slow_but_served(broker: Broker) -> None:
    peer = await broker.peer()
    for byte in hello("snail") + request(2, 2, b"slowly"):
        peer.write(bytes([byte]))
        await broker.healthy.ping()
    assert isinstance(await peer.answer(), wire.Welcome)
    assert await peer.answer() == wire.Echoed(2, b"slowly")


# And good input


async def test_the_session_in_the_document_takes_place(broker: Broker) -> None:
    peer = await broker.peer()
    for asked, answered in zip(EXAMPLES[::2], EXAMPLES[1::2], strict=True):
        peer.write(asked.stream)
        expected, answer = wire.decode_answer(answered.payload), await peer.answer()
        assert (type(answer), answer.id) == (type(expected), expected.id)
        if isinstance(expected, wire.Failed | wire.Done):
            assert answer == expected
    assert await peer.rest() == []
