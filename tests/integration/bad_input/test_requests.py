"""Requests that are none are refused one by one, and the session goes on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from stafette.protocol import messages as wire
from tests.support.hostile_peers import Broker, codes
from tests.support.protocol_client import request
from tests.support.protocol_structs import REQUESTS, kind_of


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
