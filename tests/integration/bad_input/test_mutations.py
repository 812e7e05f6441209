"""Frames that were valid requests once: each is answered or ends the connection."""

from __future__ import annotations

import asyncio
import copy
import random
import struct
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from stafette.broker.core.operation import WAITS
from stafette.protocol import messages as wire
from stafette.protocol.frames import HEADER_BYTES, frame
from tests.support.hostile_peers import Broker, Peer, hello
from tests.support.protocol_client import request
from tests.support.protocol_structs import kind_of

MUTATED_FRAMES = 100_000
ABUSERS = 50
FRAMES_AT_ONCE = 250


class Mutator:
    """Frames that were valid requests once."""

    TEMPLATES: Sequence[list[Any]] = (
        *(
            [10, 0, [[["fuzz"], b"body", None, 5, 7, {"a": "b"}, None, 60.0, False]], None],
            [10, 0, [[["fuzz", "@victim"], b"body"]], "key"],
            [10, 0, [[["fuzz"], b"body"], [["fuzz"], b""]]],
            [11, 0, ["fuzz"]],
            [11, 0, ["fuzz", None, None, "arrival", 3], None],
            [11, 0, [None, "victim", 7]],
            [12, 0, ["fuzz"], None],
            [13, 0, ["fuzz"], 30.0, None],
            [14, 0, 1, 1],
            [15, 0, 1, 1, 1.0],
            [16, 0, 1, 1, 5.0],
            [2, 0, b"echo"],
            [4, 0, 1],
            [17, 0, "fuzz", 0, 2],
            [22, 0, "fuzz"],
            [22, 0, 1],
            [30, 0, "victim"],
        )
        * 3,
        [1, 0, 1, "mallory", "full", None, 30.0, None],
        [3, 0],
        [20, 0, "fuzz", False, True, 1000, 5, None],
        [21, 0, "nothing", True],
        [23, 0],
        [24, 0, 5],
        [25, 0, "victim"],
        [26, 0, "fuzz"],
        [31, 0],
        [32, 0, "nobody"],
    )
    VALUES: Sequence[Any] = (
        None, True, False, 0, -1, 1, 2**15, 2**31, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), 0.5, -1.5, float("nan"),
        float("inf"), 1e300, "", "fuzz", "\x00", "\u202e", "@victim", "x" * 1001, "x" * 10_000, b"", b"\x00",
        b"x" * 5000, [], {}, [[]], {"": ""}, {1: 2}, ["fuzz"], [None] * 20, [["fuzz"], b""], "priority", "read-only",
        1000, 10_001,
    )  # fmt: skip

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def payload(self, request_id: int) -> bytes:
        chosen = self._random
        array = copy.deepcopy(chosen.choice(self.TEMPLATES))
        array[1] = chosen.randrange(1, request_id + 1) if chosen.random() < 0.05 else request_id  # a duplicate, or not
        [way] = chosen.choices(
            (self._leaf, self._value, self._fields, self._kind, self._deep, self._bits, self._bytes),
            (40, 26, 16, 15, 1, 1, 1),  # most of the last three end the connection, and connecting takes its time
        )
        return way(array)

    def _somewhere(self, array: list[Any], *, depth: float) -> tuple[Any, Any]:
        """A place after the id: a list or map, and an index or key of it."""
        place: Any = array
        at: Any = self._random.randrange(2, len(array)) if len(array) > 2 else 1
        while isinstance(place[at], list | dict) and place[at] and self._random.random() < depth:
            place = place[at]
            at = self._random.choice([*place] if isinstance(place, dict) else range(len(place)))
        return place, at

    def _leaf(self, array: list[Any]) -> bytes:
        """One bit of a value the other way round, in a frame that is well formed."""
        place, at = self._somewhere(array, depth=1.0)
        bit = self._random.randrange(64)
        match place[at]:
            case bool(value):
                place[at] = not value
            case int(value):
                place[at] = value ^ (1 << bit)
            case float(value):
                place[at] = struct.unpack(
                    "d", (int.from_bytes(struct.pack("d", value), "big") ^ 1 << bit).to_bytes(8, "big")
                )[0]
            case str(value) if value:
                changed = self._random.randrange(len(value))
                place[at] = value[:changed] + chr(ord(value[changed]) ^ 1 << bit % 9) + value[changed + 1 :]
            case bytes(value) if value:
                changed = self._random.randrange(len(value))
                place[at] = value[:changed] + bytes([value[changed] ^ 1 << bit % 8]) + value[changed + 1 :]
            case _:
                place[at] = self._random.choice(self.VALUES)
        return msgspec.msgpack.encode(array)

    def _value(self, array: list[Any]) -> bytes:
        """Another value somewhere after the id."""
        place, at = self._somewhere(array, depth=0.8)
        place[at] = self._random.choice(self.VALUES)
        return msgspec.msgpack.encode(array)

    def _fields(self, array: list[Any]) -> bytes:
        """Too few fields, or too many, or in another order."""
        fields = array[2:] + self._random.choices(self.VALUES, k=self._random.randrange(3))
        self._random.shuffle(fields)
        return msgspec.msgpack.encode(array[:2] + fields[: self._random.randrange(len(fields) + 1)])

    def _kind(self, array: list[Any]) -> bytes:
        """The fields of another kind."""
        kind = self._random.choice([*range(40), *range(100, 121), "Send", None, 2**40])
        return msgspec.msgpack.encode([kind, *array[1:]])

    def _deep(self, array: list[Any]) -> bytes:
        """A value within a value within a value."""
        depth = self._random.choice((10, 100, 1000, 5000))
        nest = self._random.choice((b"\x91", b"\x81\xa0"))
        head = msgspec.msgpack.encode(array[:2])
        return bytes([head[0] + 1]) + head[1:] + nest * depth + b"\xc0"

    def _bits(self, array: list[Any]) -> bytes:
        """Some bits the other way round, after the id."""
        payload = bytearray(msgspec.msgpack.encode(array))
        first = len(msgspec.msgpack.encode(array[:2]))
        if first < len(payload):
            for _ in range(self._random.choice((1, 1, 1, 2, 8))):
                payload[self._random.randrange(first, len(payload))] ^= 1 << self._random.randrange(8)
        return bytes(payload)

    def _bytes(self, array: list[Any]) -> bytes:
        """Bytes anywhere changed, lost or won."""
        payload = bytearray(msgspec.msgpack.encode(array))
        at = self._random.randrange(len(payload))
        match self._random.randrange(4):
            case 0:
                payload[at] = self._random.randrange(256)
            case 1:
                del payload[at:]
            case 2:
                del payload[at]
            case 3:
                payload[at:at] = self._random.randbytes(self._random.randrange(1, 9))
        return bytes(payload)


class Abuser:
    """Sends mutated frames on one connection after the other, and sees that each is answered or ends the connection."""

    def __init__(self, broker: Broker, number: int) -> None:
        self._broker = broker
        self._name = f"mallory {number}"
        self._mutator = Mutator(number)
        self.sent = 0
        self.hung_up = 0
        self.outcomes: Counter[str] = Counter()

    async def abuse(self, frames: int) -> None:
        while self.sent < frames:
            peer = await self._broker.peer(seen=False)
            await peer.hello(self._name, session=4711)
            while self.sent < frames and await self._round(peer):
                pass
            await peer.close()
            if self.hung_up % 10 == 0:
                await self._broker.serves()

    async def _round(self, peer: Peer) -> bool:
        """Send some frames and read all answers; False when the connection is at its end."""
        payloads, expected, may_wait, last = list[bytes](), Counter[int](), Counter[int](), None
        while len(payloads) < FRAMES_AT_ONCE and last is None:
            payload = self._mutator.payload(2 + len(payloads))
            request_id, waits, ends = _fate(payload)
            if ends:
                last = payload, request_id
            else:
                payloads.append(payload)
                (may_wait if waits else expected)[request_id] += 1
        that_was_all = wire.Echoed(FRAMES_AT_ONCE + 2, b"that was all")
        peer.write(*map(frame, payloads), request(kind_of(wire.Echo), that_was_all.id, that_was_all.payload))
        self.sent += len(payloads)
        answered = Counter[int]()
        while (answer := await peer.answer()) != that_was_all:
            self._count(answer)
            answered[answer.id] += 1
        assert expected - answered == Counter()
        assert answered - expected - may_wait == Counter()
        if last is not None:
            await self._end(peer, *last)
        return last is None and not may_wait

    async def _end(self, peer: Peer, payload: bytes, request_id: int) -> None:
        """Send the one frame after which the broker hangs up."""
        peer.write(frame(payload))
        self.sent += 1
        self.hung_up += 1
        *_, answer = await peer.rest()
        self._count(answer)
        assert answer.id == request_id
        assert isinstance(answer, wire.Done | wire.Failed)

    def _count(self, answer: wire.Answer) -> None:
        self.outcomes[answer.name if isinstance(answer, wire.Failed) else type(answer).__name__] += 1


def _fate(payload: bytes) -> tuple[int, bool, bool]:
    """The id under which a frame is answered, whether that may take a while, and whether it ends the connection."""
    try:
        asked = wire.decode_request(payload)
    except wire.Undecodable as error:
        return error.request_id, False, not error.request_id
    return asked.id, type(asked) in WAITS and (getattr(asked, "wait", None) or 0.0) > 0, isinstance(asked, wire.Bye)


@pytest.mark.slow
async def test_a_hundred_thousand_mutated_frames(broker: Broker) -> None:
    await broker.healthy.create_queue("fuzz")
    await broker.open("victim")
    abusers = [Abuser(broker, number) for number in range(ABUSERS)]
    await asyncio.gather(*(abuser.abuse(MUTATED_FRAMES // ABUSERS) for abuser in abusers))
    outcomes = sum((abuser.outcomes for abuser in abusers), Counter[str]())
    assert sum(abuser.sent for abuser in abusers) >= MUTATED_FRAMES
    assert sum(abuser.hung_up for abuser in abusers) > MUTATED_FRAMES / 1000
    assert outcomes["InternalError"] == 0
    assert {"InvalidRequest", "QueueNotFound", "LeaseLost", "Sent", "Messages", "Done", "Echoed"} <= set(outcomes)


async def test_mutated_hellos(broker: Broker) -> None:
    chosen = random.Random(4)
    whole = hello("mallory", mode="full", secret=None, timeout=30.0, resume=None)
    for _ in range(300):
        stream = bytearray(whole)
        for _ in range(chosen.choice((1, 2, 5))):
            stream[chosen.randrange(HEADER_BYTES, len(stream))] ^= 1 << chosen.randrange(8)
        peer = await broker.peer()
        peer.write(bytes(stream))
        answer = await peer.answer()
        if isinstance(answer, wire.Failed):
            assert answer.group == "caller"
            assert await peer.rest() == []
        else:
            assert isinstance(answer, wire.Welcome)
            await peer.close()
