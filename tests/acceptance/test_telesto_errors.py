"""Telesto's fourteen error codes and its notifications; `test_telesto.py` says which of ours each is."""

from __future__ import annotations

import msgspec
import pytest

import stafette.aio
from stafette import errors
from stafette.broker.server import BrokerSettings, running
from stafette.client.aio import Client
from stafette.model import Selection
from stafette.protocol import messages as wire
from tests.support.brokers import Connect, got
from tests.support.protocol_client import raw_answers

HELLO = wire.encode(wire.Hello(1, wire.VERSION, "packets"))


@pytest.fixture
async def dominic(connect: Connect) -> Client:
    return await connect("dominic")


@pytest.fixture
async def simon(connect: Connect, elsewhere: str) -> Client:
    """He is connected to the other broker."""
    return await connect("simon", elsewhere)


# Errors: unexpected


def test_an_internal_error_has_a_code_a_name_and_a_group() -> None:
    answer = wire.failure(9, errors.InternalError("the log says why"))
    assert (answer.code, answer.name, answer.group) == (300, "InternalError", "ours")
    assert isinstance(wire.to_error(answer), errors.InternalError)


async def test_io_error_when_the_broker_is_gone(database: str) -> None:
    async with running(BrokerSettings(database=database, port=0)) as (_, port):
        client = await stafette.aio.connect(f"stafette://127.0.0.1:{port}", name="dominic", timeout=1.0)
    with pytest.raises(errors.Unavailable):
        await client.ping()
    await client.close()


# Errors: the client's


async def test_an_unexpected_packet(broker: str, dominic: Client) -> None:
    response = wire.encode(wire.Sent(2, [[1]]))  # what only the server may say
    again = wire.encode(wire.Hello(3, wire.VERSION, "packets"))
    unknown = msgspec.msgpack.encode([99, 4])
    _, *refusals = await raw_answers(broker, HELLO, response, again, unknown)
    assert [_what(refusal) for refusal in refusals] == [(number, "InvalidRequest", "caller") for number in (2, 3, 4)]
    await dominic.ping()


async def test_a_packet_before_the_hello(broker: str) -> None:
    for first in (wire.Echo(1), wire.ListQueues(1), wire.Receive(1, Selection("q"))):
        answers = await raw_answers(broker, wire.encode(first), HELLO)
        assert [_what(answer) for answer in answers] == [(1, "NotAuthenticated", "caller")], "and it hangs up"


async def test_a_required_parameter_is_missing(broker: str, dominic: Client) -> None:
    nameless = msgspec.msgpack.encode([20, 2])
    without_body = msgspec.msgpack.encode([10, 3, [[["q"]]]])
    _, *refusals = await raw_answers(broker, HELLO, nameless, without_body)
    assert [_what(refusal) for refusal in refusals] == [(number, "InvalidRequest", "caller") for number in (2, 3)]
    for missing in (dominic.create_queue(""), dominic.send([], ""), dominic.receive()):
        with pytest.raises(errors.InvalidRequest):
            await missing


async def test_names_are_unique(connect: Connect, elsewhere: str, dominic: Client, simon: Client) -> None:
    await dominic.create_queue("q")
    with pytest.raises(errors.QueueExists):
        await simon.create_queue("q")
    assert (await simon.create_queue("q", exist_ok=True)).creator == "dominic"
    with pytest.raises(errors.AlreadyOnline):
        await connect("dominic", elsewhere)
    await (await connect("markus", secret="mine")).close()
    with pytest.raises(errors.NotAuthenticated):
        await connect("markus", elsewhere)
    await dominic.send("q", "first", key="k")
    with pytest.raises(errors.KeyConflict):
        await dominic.send("q", "second", key="k")


async def test_what_does_not_exist(dominic: Client) -> None:
    for nowhere in (
        dominic.queue("nowhere"), dominic.queue(999_999), dominic.delete_queue("nowhere"), dominic.browse("nowhere"),
        dominic.send("nowhere", ""), dominic.receive("nowhere"), dominic.receive("nowhere", context=1),
    ):  # fmt: skip
        with pytest.raises(errors.QueueNotFound):
            await nowhere
    for nobody in (
        dominic.client("nobody"), dominic.delete_client("nobody"), dominic.receive(sender="nobody"),
        dominic.send("@dominic", "", receiver="nobody"),
    ):  # fmt: skip
        with pytest.raises(errors.ClientNotFound):
            await nobody


async def test_a_read_only_client_looks_and_changes_nothing(connect: Connect, elsewhere: str, dominic: Client) -> None:
    await dominic.create_queue("q")
    await (await connect("away")).close()
    reader = await connect("reader", elsewhere, mode="read-only")
    await dominic.send("q", "for anyone")
    await dominic.send("@reader", "for the reader")
    for change in (
        reader.send("q", ""), reader.send_many([("q", "")]), reader.receive("q"), reader.receive("@reader"),
        reader.receive_many("q", 2), reader.lease("q"), reader.purge("@reader"), reader.create_queue("r"),
        reader.delete_queue("q", force=True), reader.delete_client("away"), reader.request("q", ""),
    ):  # fmt: skip
        with pytest.raises(errors.PermissionDenied):
            await change
    assert got(await reader.peek("q")).text == "for anyone"
    assert got(await reader.peek("@reader")).text == "for the reader"
    assert [message.text for message in await reader.browse("q")] == ["for anyone"]
    assert [queue.name for queue in await reader.waiting_queues()] == ["@reader"]
    assert len(await reader.queues()) == 4
    assert len(await reader.clients()) == 3


# Notifications


async def test_nothing_there_is_an_answer_and_not_an_error(dominic: Client) -> None:
    assert await dominic.waiting_queues() == []
    assert [queue.name for queue in await dominic.queues()] == ["@dominic"]
    await dominic.create_queue("q")
    assert await dominic.browse("q") == []
    assert await dominic.receive("q") is None
    assert await dominic.receive("q", order="arrival") is None
    assert await dominic.receive("q", wait=0.05) is None


def _what(answer: wire.Answer) -> tuple[int, str, str]:
    assert isinstance(answer, wire.Failed)
    assert answer.sentence
    return answer.id, answer.name, answer.group
