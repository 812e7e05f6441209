"""Values that can be decoded, but not be stored or not be meant, are found before anything is batched."""

from __future__ import annotations

import math

import msgspec
import pytest

from stafette.broker.core.admission import hello_refusal
from stafette.broker.core.values import invalid_value
from stafette.errors import InvalidRequest
from stafette.model import Draft, Selection
from stafette.protocol import messages as wire
from tests.support.core_script import Script, kinds, receive

NUL = "a\0b"
ODD: list[wire.Request] = [
    wire.Hello(1, wire.VERSION, NUL),
    wire.Hello(1, wire.VERSION, "alice", secret=NUL),
    wire.Send(1, [Draft(("jobs",), b"")], key=NUL),
    wire.Send(1, [Draft(("jobs",), b""), Draft(("jobs", NUL), b"")]),
    wire.Send(1, [Draft(("jobs",), b"", receiver=NUL)]),
    wire.Send(1, [Draft(("jobs",), b"", headers={"good": "good", NUL: ""})]),
    wire.Send(1, [Draft(("jobs",), b"", headers={"good": NUL})]),
    *(kind(1, Selection(NUL)) for kind in (wire.Receive, wire.Peek, wire.Lease)),
    *(kind(1, Selection("jobs", NUL)) for kind in (wire.Receive, wire.Peek, wire.Lease)),
    *(wire.Lease(1, Selection("jobs"), seconds) for seconds in (0.0, -1.0, -1e9, math.nan)),
    *(wire.Extend(1, 1, 1, seconds) for seconds in (0.0, -1.0, math.nan)),
    *(wire.Ack(1, 1, token) for token in (2**63, 2**64 - 1, -(2**63) - 1)),
    wire.Nack(1, 1, 2**63),
    wire.Extend(1, 1, 2**63, 1.0),
    wire.Browse(1, NUL),
    wire.CreateQueue(1, NUL),
    wire.CreateQueue(1, "jobs", dead_letter=NUL),
    wire.DeleteQueue(1, NUL),
    wire.LookUpQueue(1, NUL),
    wire.LookUpPersonalQueue(1, NUL),
    wire.Purge(1, NUL),
    wire.LookUpClient(1, NUL),
    wire.DeleteClient(1, NUL),
]
FINE: list[wire.Request] = [
    wire.Hello(1, wire.VERSION, "alice", secret="s"),
    wire.Send(
        1, [Draft(("jobs", "ü\x01\x7f😀"), b"\0", receiver="bob", headers={"a": "\n", "": ""}, delay=0.5)], key="k"
    ),
    wire.Receive(1, Selection(None, None, 7)),
    wire.Lease(1, Selection("jobs", "alice"), 0.001),
    wire.Extend(1, 1, 2**63 - 1, 1e9),
    wire.Ack(1, 1, -(2**63)),
    wire.Nack(1, 1, 0, -1.0),
    wire.LookUpQueue(1, 17),
    wire.Echo(1, b"\0"),
    wire.ListQueues(1),
]


@pytest.mark.parametrize("request_", ODD, ids=str)
def test_an_odd_value_is_found_and_said_in_a_sentence(request_: wire.Request) -> None:
    sentence = invalid_value(request_)
    assert sentence is not None
    assert "\0" not in sentence
    assert not sentence.endswith(".")


@pytest.mark.parametrize("request_", FINE, ids=str)
def test_all_else_passes(request_: wire.Request) -> None:
    assert invalid_value(request_) is None


def test_every_request_with_a_text_is_looked_at() -> None:
    looked_at = {type(request) for request in ODD}
    texts = {
        kind
        for kind in wire.Request.__args__
        if any("str" in str(field.type) or "Name" in str(field.type) for field in msgspec.structs.fields(kind))
    }
    assert texts <= looked_at


def test_such_a_request_is_refused_alone() -> None:
    script = Script()
    alice = script.open("alice")
    script.say(alice, receive(2), wire.Receive(3, Selection(NUL)), receive(4))
    assert [answer.id for answer in alice.answers] == [3]
    assert kinds(alice.answers) == ["InvalidRequest"]


def test_a_hello_is_looked_at_as_well() -> None:
    assert isinstance(hello_refusal(wire.Hello(1, wire.VERSION, NUL), require_secret=False), InvalidRequest)


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -math.inf, 1.1e9, -1.1e9])
@pytest.mark.parametrize(
    ("kind", "fields"),
    [(11, [["jobs"]]), (12, [["jobs"]]), (13, [["jobs"]]), (13, [["jobs"], 30.0]), (15, [1, 1]), (16, [1, 1])],
)
def test_what_is_no_number_of_seconds_is_not_even_decoded(kind: int, fields: list[object], seconds: float) -> None:
    with pytest.raises(wire.Undecodable):
        wire.decode_request(msgspec.msgpack.encode([kind, 1, *fields, seconds]))


@pytest.mark.parametrize("position", ["delay", "ttl"])
@pytest.mark.parametrize("seconds", [math.nan, math.inf, 1.1e9])
def test_nor_in_a_draft(position: str, seconds: float) -> None:
    times = [seconds, None] if position == "delay" else [None, seconds]
    with pytest.raises(wire.Undecodable):
        wire.decode_request(msgspec.msgpack.encode([10, 1, [[["jobs"], b"", None, 5, None, None, *times]]]))


def test_a_lone_surrogate_is_not_decoded() -> None:
    with pytest.raises(wire.Undecodable, match="utf-8"):
        wire.decode_request(b"\x93\x15\x05\xa3\xed\xa0\x80")
