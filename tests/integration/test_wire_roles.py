"""Every request of the protocol, and who may make it: one table, compared with the protocol's own list.

A new request without a row fails. Each is made before a hello, by a client that is read-only, and by one that is not.
"""

from __future__ import annotations

import struct

import pytest

from stafette.broker.limits import HELLO_FRAME
from stafette.errors import MessageTooLarge, PermissionDenied
from stafette.model import Draft, Selection
from stafette.protocol import messages as wire
from tests.support.brokers import StartBroker
from tests.support.protocol_client import ProtocolClient
from tests.support.protocol_structs import REQUESTS

QUEUE, ID = "jobs", 2

ANYONE = (wire.Hello(ID, wire.VERSION, "somebody"),)
READERS = (
    wire.Echo(ID), wire.Bye(ID), wire.Cancel(ID, 1), wire.Peek(ID, Selection(QUEUE)), wire.Browse(ID, QUEUE),
    wire.LookUpQueue(ID, QUEUE), wire.ListQueues(ID), wire.WaitingQueues(ID), wire.LookUpPersonalQueue(ID, "nobody"),
    wire.LookUpClient(ID, "nobody"), wire.ListClients(ID),
)  # fmt: skip
FULL_CLIENTS = (
    wire.Send(ID, [Draft((QUEUE,), b"")]), wire.Receive(ID, Selection(QUEUE)), wire.Lease(ID, Selection(QUEUE)),
    wire.Ack(ID, 1, 1), wire.Nack(ID, 1, 1), wire.Extend(ID, 1, 1, 1.0), wire.CreateQueue(ID, QUEUE),
    wire.DeleteQueue(ID, QUEUE), wire.Purge(ID, QUEUE), wire.DeleteClient(ID, "nobody"),
)  # fmt: skip


def name(request: wire.Frame) -> str:
    return type(request).__name__


def test_every_request_has_a_row() -> None:
    assert sorted(map(name, (*ANYONE, *READERS, *FULL_CLIENTS))) == sorted(kind.__name__ for kind in REQUESTS)


def is_refused(answer: wire.Answer) -> bool:
    return isinstance(answer, wire.Failed) and answer.code == PermissionDenied.code


async def answer_to(client: ProtocolClient, request: wire.Request) -> wire.Answer:
    client.send(request)
    answer = await client.answer()
    await client.close()
    return answer


@pytest.mark.parametrize("request_", [*READERS, *FULL_CLIENTS], ids=name)
async def test_before_the_hello(brokers: StartBroker, request_: wire.Request) -> None:
    _, url = await brokers()
    client = await ProtocolClient.connect(url)
    client.send(request_)
    assert all(isinstance(answer, wire.Failed) for answer in await client.rest()), "and the broker hangs up"
    await client.close()


@pytest.mark.parametrize("kind", REQUESTS, ids=lambda kind: kind.__name__)
async def test_before_the_hello_nothing_large_is_read(brokers: StartBroker, kind: type[wire.Frame]) -> None:
    """The header of a frame says how large it is, and so does the array in it which request it would be."""
    _, url = await brokers()
    client = await ProtocolClient.connect(url)
    client.write(struct.pack(">I", HELLO_FRAME + 1), bytes([0x92, kind.__struct_config__.tag]))  # type: ignore[list-item]
    [failed] = await client.rest()
    assert isinstance(failed, wire.Failed)
    assert failed.code == MessageTooLarge.code
    await client.close()


@pytest.mark.parametrize("request_", [*READERS, *FULL_CLIENTS], ids=name)
async def test_a_read_only_client(brokers: StartBroker, request_: wire.Request) -> None:
    _, url = await brokers()
    client = await ProtocolClient.open(url, "looks", mode="read-only")
    assert is_refused(await answer_to(client, request_)) is (request_ in FULL_CLIENTS)


@pytest.mark.parametrize("request_", [*READERS, *FULL_CLIENTS], ids=name)
async def test_a_full_client(brokers: StartBroker, request_: wire.Request) -> None:
    _, url = await brokers()
    client = await ProtocolClient.open(url, "works")
    assert not is_refused(await answer_to(client, request_))
