"""Hellos that are none are refused, and nothing is done before one."""

from __future__ import annotations

import pytest

from stafette.protocol import messages as wire
from stafette.protocol.frames import frame
from tests.support.hostile_peers import Broker, codes, hello
from tests.support.protocol_client import request
from tests.support.protocol_structs import REQUESTS, kind_of


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


@pytest.mark.parametrize("version", [0, 1, 3, -1, 2**64 - 1])
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


@pytest.mark.parametrize("session", [-1, 1, 2**63 - 1, 2**64 - 1])
async def test_a_made_up_session_is_not_resumed(broker: Broker, session: int) -> None:
    peer = await broker.peer()
    peer.write(frame(wire.encode(wire.Hello(1, wire.VERSION, "healthy", session=session))))
    assert codes(await peer.rest()) in ([(1, 106)], [(0, 100)])


async def test_the_empty_secret_is_none(broker: Broker) -> None:
    broker.runtime.core.require_secrets = True
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
