"""Whatever bytes come, the answer is an error or a closed connection; nothing is logged, and others are served."""

from __future__ import annotations

import asyncio
import copy
import gc
import logging
import random
import struct
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec
import pytest

import stafette.aio
from stafette.broker.core.operation import WAITS
from stafette.broker.limits import HELLO_FRAME, MEBIBYTE, UNREAD_BYTES
from stafette.broker.native import NativeConnection
from stafette.broker.runtime import Runtime
from stafette.client.aio import Client
from stafette.protocol import messages as wire
from stafette.protocol.frames import HEADER_BYTES, frame
from tests.support.protocol_client import ProtocolClient, request
from tests.support.protocol_examples import EXAMPLES
from tests.support.protocol_structs import REQUESTS, kind_of
from tests.support.waiting import PATIENCE_SECONDS, until

MUTATED_FRAMES = 100_000
ABUSERS = 50
FRAMES_AT_ONCE = 250

Answer = TypeVar("Answer", bound=wire.Frame)


class Peer(ProtocolClient):
    """A client of raw bytes to a broker in this process."""

    runtime: Runtime

    @property
    def connections(self) -> list[NativeConnection]:
        """The broker's end, if it has come to that."""
        connections = [session.connection for session in self.runtime.core.connected]
        return [
            connection
            for connection in connections
            if isinstance(connection, NativeConnection)
            and connection.transport
            and connection.transport.get_extra_info("peername") == self.address
        ]

    @property
    def connection(self) -> NativeConnection:
        """The broker's end."""
        [connection] = self.connections
        return connection


class Broker:
    """A broker with one client that behaves."""

    def __init__(self, runtime: Runtime, url: str, healthy: Client) -> None:
        self.runtime = runtime
        self.healthy = healthy
        self._url = url
        self._peers: list[Peer] = []

    async def peer(self, *, limit: int = 2**20, buffer: int | None = None, seen: bool = True) -> Peer:
        """Connect; with a small limit and buffer, one that leaves answers where they are."""
        peer = await Peer.connect(self._url, limit=limit, buffer=buffer)
        peer.runtime = self.runtime
        self._peers.append(peer)
        if seen:
            await self.until(lambda: bool(peer.connections))
        return peer

    async def open(self, name: str, **options: Any) -> Peer:
        peer = await self.peer()
        await peer.hello(name, **options)
        return peer

    async def serves(self) -> None:
        """See that others are served."""
        await self.healthy.send("healthy", b"how are you")
        message = await self.healthy.receive("healthy")
        assert message is not None
        assert message.text == "how are you"

    async def until(self, condition: Callable[[], bool]) -> None:
        """Let the broker work until something holds, with a healthy client among the others."""
        await until(condition, self.healthy.ping)

    async def everybody_gone(self) -> None:
        """See that nothing is left of those who came."""
        for peer in self._peers:
            await peer.close()
        await self.healthy.close()
        runtime, core = self.runtime, self.runtime.core
        async with asyncio.timeout(PATIENCE_SECONDS):
            await runtime.everybody_gone()
            while tasks := runtime._tasks | runtime._calls:
                await asyncio.wait(tasks)
        assert (core.sessions, core.idle_timeouts._deadlines, core.admission.active, len(core.waiting)) == (
            {},
            {},
            0,
            0,
        )
        assert core.dispatcher.outstanding == 0
        assert await runtime.store.brokers.sessions(runtime.broker_id) == {}


@pytest.fixture(autouse=True)
async def quiet(caplog: pytest.LogCaptureFixture) -> AsyncIterator[None]:
    """Nothing that comes over the wire is a reason to log an error, here or in asyncio."""
    unhandled: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
    yield
    gc.collect()  # tasks whose exceptions nobody has seen say so when they go
    asyncio.get_running_loop().set_exception_handler(None)
    logged = [record.getMessage() for when in ("setup", "call") for record in caplog.get_records(when)
              if record.levelno >= logging.ERROR]  # fmt: skip
    assert (logged, unhandled) == ([], [])


@pytest.fixture
async def broker_of(
    brokers: Callable[..., Awaitable[tuple[Runtime, str]]],
) -> AsyncIterator[Callable[..., Awaitable[Broker]]]:
    """Starts a broker; at the end of the test, see that others are served and that nothing is left."""
    started: list[Broker] = []

    async def start(**limits: int) -> Broker:
        runtime, url = await brokers(**limits)
        healthy = await stafette.aio.connect(url, name="healthy")
        await healthy.create_queue("healthy", exist_ok=True)
        started.append(Broker(runtime, url, healthy))
        return started[-1]

    yield start
    for broker in started:
        await broker.serves()
        await broker.everybody_gone()


@pytest.fixture
async def broker(broker_of: Callable[..., Awaitable[Broker]]) -> Broker:
    return await broker_of()


@pytest.fixture
def time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has to do something is late with it."""
    for timeout in ("HELLO", "FRAME", "READ", "HANG_UP"):
        monkeypatch.setattr(f"stafette.broker.core.idle_timeouts.{timeout}_SECONDS", -1.0)


def hello(name: object, version: object = wire.VERSION, **options: object) -> bytes:
    return request(kind_of(wire.Hello), 1, version, name, *options.values())


def codes(answers: Iterable[wire.Answer]) -> list[tuple[int, int]]:
    """The id and code of every error."""
    return [(answer.id, answer.code) for answer in answers if isinstance(answer, wire.Failed)]


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


# Hellos


@pytest.mark.parametrize("struct", [struct for struct in REQUESTS if struct is not wire.Hello])
async def test_nothing_is_done_before_the_hello(broker: Broker, struct: type[wire.Frame]) -> None:
    samples: dict[type, tuple[object, ...]] = {
        wire.Send: ([[["healthy"], b"early"]],), wire.Receive: (["healthy"],), wire.Peek: (["healthy"],),
        wire.Lease: (["healthy"],), wire.Ack: (1, 1), wire.Nack: (1, 1), wire.Extend: (1, 1, 1.0), wire.Cancel: (1,),
        wire.Echo: (), wire.Bye: (), wire.ListQueues: (), wire.ListClients: (), wire.WaitingQueues: (),
    }  # fmt: skip
    peer = await broker.peer()
    peer.write(request(kind_of(struct), 7, *samples.get(struct, ("healthy",))), hello("late"))
    assert codes(await peer.rest()) == [(7, 108)]
    assert "late" not in [client.name for client in await broker.healthy.clients()]
    assert (await broker.healthy.queue("healthy")).messages == 0


@pytest.mark.parametrize("version", [0, 2, -1, 2**64 - 1])
async def test_another_version_is_refused(broker: Broker, version: int) -> None:
    peer = await broker.peer()
    peer.write(hello("alice", version))
    [answer] = await peer.rest()
    assert isinstance(answer, wire.Failed)
    assert (answer.id, answer.code) == (1, 100)
    assert f"version {wire.VERSION}" in answer.sentence


@pytest.mark.parametrize(
    "name",
    ["", "x" * 201, "x" * 10_000, "bell\x07", "line\nfeed", "nul\x00", "\x00", "\x7f", "\x85"],
)
async def test_a_name_that_is_none_is_refused(broker: Broker, name: str) -> None:
    peer = await broker.peer()
    peer.write(hello(name))
    assert codes(await peer.rest()) == [(1, 100)]


@pytest.mark.parametrize("raw", [b"\xed\xa0\x80", b"\xff\xfe\xfd", b"\xc0\xaf", b"ab\xe2"])
async def test_a_name_that_is_not_utf_8_is_refused(broker: Broker, raw: bytes) -> None:
    peer = await broker.peer()
    peer.write(hello("#" * len(raw)).replace(b"#" * len(raw), raw))
    assert codes(await peer.rest()) == [(0, 100)]


@pytest.mark.parametrize(
    "fields",
    [
        (1, 1), (1, 1, 1), (1, 1, 1, b"bytes"), (1, 1, 1, None), (1, 1, 1, "a", "admin"), (1, 1, 1, "a", "full", 5),
        (1, 1, 1, "a", "full", None, "soon"), (1, 1, 1, "a", "full", None, float("nan")), (1, 1, "1", "a"),
        (1, 1, 1, "a", "full", None, 1.0, None, "more"), (1, -1, 1, "a"), (1, 2**63, 1, "a"), (1, True, 1, "a"),
    ],
)  # fmt: skip
async def test_a_hello_that_is_none_is_refused(broker: Broker, fields: tuple[object, ...]) -> None:
    peer = await broker.peer()
    peer.write(request(*fields))
    assert codes(await peer.rest()) == [(0, 100)]


@pytest.mark.parametrize("timeout", [0, -1.0, -1e9])
async def test_no_time_for_requests_is_refused(broker: Broker, timeout: float) -> None:
    peer = await broker.peer()
    peer.write(frame(wire.encode(wire.Hello(1, wire.VERSION, "hasty", timeout=timeout))))
    assert codes(await peer.rest()) == [(1, 100)]


@pytest.mark.parametrize("resume", [-1, 1, 2**63 - 1, 2**64 - 1])
async def test_a_made_up_session_is_not_resumed(broker: Broker, resume: int) -> None:
    peer = await broker.peer()
    peer.write(frame(wire.encode(wire.Hello(1, wire.VERSION, "healthy", resume=resume))))
    assert codes(await peer.rest()) in ([(1, 106)], [(1, 100)])


async def test_the_empty_secret_is_none(broker: Broker) -> None:
    broker.runtime.require_secrets = True
    peer = await broker.peer()
    peer.write(frame(wire.encode(wire.Hello(1, wire.VERSION, "mallory", secret=""))))
    assert codes(await peer.rest()) == [(1, 108)]


async def test_a_second_hello_is_refused_and_the_session_goes_on(broker: Broker) -> None:
    peer = await broker.peer()
    peer.write(hello("twice"), frame(wire.encode(wire.Hello(2, wire.VERSION, "impatient"))))
    assert isinstance(await peer.answer(), wire.Welcome)
    assert codes([await peer.answer()]) == [(2, 100)]
    assert codes([await peer.ask(1, 3, 1, "twice")]) == [(3, 100)]
    assert await peer.ask(2, 4, b"on") == wire.Echoed(4, b"on")


async def test_what_follows_the_hello_at_once_is_held_to_its_mode(broker: Broker) -> None:
    peer = await broker.peer()
    peer.write(hello("reader", mode="read-only"), request(10, 2, [[["healthy"], b"sneaked in"]]), request(2, 3, b""))
    welcome, refused, echoed = [await peer.answer() for _ in range(3)]
    assert isinstance(welcome, wire.Welcome)
    assert codes([refused]) == [(2, 107)]
    assert echoed.id == 3
    assert (await broker.healthy.queue("healthy")).messages == 0


# Requests


async def test_unknown_kinds_are_refused_and_the_session_goes_on(broker: Broker) -> None:
    peer = await broker.open("mallory")
    kinds = [kind for kind in [*range(-5, 300), 2**32, 2**64 - 1] if kind not in map(kind_of, REQUESTS)]
    peer.write(*(request(kind, 10 + number) for number, kind in enumerate(kinds)))
    assert codes([await peer.answer() for _ in kinds]) == [(10 + number, 100) for number in range(len(kinds))]
    assert await peer.ask(2, 9, b"on") == wire.Echoed(9, b"on")


async def test_values_that_the_database_cannot_hold_hurt_only_their_own_request(broker: Broker) -> None:
    peer = await broker.open("mallory")
    good = [["healthy"], b"good"]
    bad: list[tuple[object, ...]] = [
        (10, [[["nul\x00"], b""]]), (10, [[["healthy"], b"", "nul\x00"]]), (10, [good], "nul\x00"),
        (10, [good], "k" * 9999),
        (10, [[["healthy"], b"", None, 5, None, {"nul\x00": "\x00"}]]), (10, [[["healthy"], b"", None, 32767]]),
        (10, [[["healthy"], b"", None, 5, None, None, 1e9, -1e9]]), (10, [good, [["nobody"], b""]]),
        (11, [None, "nul\x00"]), (11, []), (14, 2**63 - 1, 2**64 - 1), (15, 1, -(2**63), -1e9), (16, 0, 2**64 - 1, 1e9),
        (17, "healthy", 2**64 - 1), (20, "new", False, False, 2**64 - 1), (20, "new", False, False, None, -(2**63)),
        (20, "@new"), (20, ""), (21, "nul\x00"), (22, 2**63 - 1), (22, "\x00"), (25, "\x00"), (26, "\x00"),
        (30, "\x00"), (32, "\x00"), (32, "nobody"),
    ]  # fmt: skip
    peer.write(*(
        request(kind, number, *fields) + request(10, 1000 + number, [good])
        for number, (kind, *fields) in enumerate(bad, 2)
    ))  # fmt: skip
    answers = {answer.id: answer for answer in [await peer.answer() for _ in range(2 * len(bad))]}
    for number, fields in enumerate(bad, 2):
        failed = answers[number]
        assert isinstance(failed, wire.Failed), fields
        assert failed.group == "caller", fields
        assert isinstance(answers[1000 + number], wire.Sent)
    assert await broker.healthy.purge("healthy") == len(bad)


async def test_what_comes_after_a_bye_is_not_done(broker: Broker) -> None:
    peer = await broker.open("leaver")
    peer.write(request(3, 2), request(10, 3, [[["healthy"], b"late"]]), request(2, 4), request(3, 5))
    answers = await peer.rest()
    assert answers[0] == wire.Done(2)
    assert codes(answers[1:]) == [(3, 108), (4, 108), (5, 108)]
    assert (await broker.healthy.queue("healthy")).messages == 0


async def test_more_requests_than_the_broker_may_hold_are_refused(
    broker_of: Callable[..., Awaitable[Broker]],
) -> None:
    broker = await broker_of(in_flight=50)
    peer = await broker.open("mallory")
    peer.write(*(request(23, number) for number in range(2, 202)))  # each is a run of its own, and waits in line
    answers = [await peer.answer() for _ in range(200)]
    refused = codes(answers)
    assert {code for _, code in refused} == {201}
    assert len(refused) >= 200 - 50
    assert sorted(answer.id for answer in answers) == list(range(2, 202))


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


# Mutations


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
        session: int | None = None
        while self.sent < frames:
            peer = await self._broker.peer(seen=False)
            session = (await peer.hello(self._name, resume=session)).session
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
