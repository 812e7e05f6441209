"""Requests and answers: each survives the wire, defaults may be left out, and what is no request is refused cheaply."""

from __future__ import annotations

import tracemalloc
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import inspect as types

from stafette import errors
from stafette.model import Draft, Leased, Message, Queue, Selection
from stafette.protocol import messages as wire
from stafette.protocol.frames import FrameReader, frame
from tests.support.byte_streams import Cut, cut_in_any_way, read
from tests.support.protocol_structs import ANSWERS, REQUESTS, fields_of, kind_of, required_of, structs

LIMIT = 10_000_000
leaves = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary()
anything = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
some_examples = settings(max_examples=30)

each_request = pytest.mark.parametrize("struct", REQUESTS, ids=lambda struct: struct.__name__)
each_answer = pytest.mark.parametrize("struct", ANSWERS, ids=lambda struct: struct.__name__)


def packed(*values: object) -> bytes:
    return msgspec.msgpack.encode(values)


def smallest(struct: type[wire.Frame], request_id: int = 7) -> list[Any]:
    """The array of a request in which all that has a default is left out."""
    samples: dict[type[types.Type], Any] = {
        types.IntType: 1,
        types.StrType: "x",
        types.FloatType: 1.0,
        types.BytesType: b"",
        types.UnionType: "x",
        types.ListType: [[["q"], b""]],
        types.StructType: [],
    }
    required = [field.type for field in fields_of(struct) if field.default is msgspec.NODEFAULT]
    return [kind_of(struct), request_id, *(samples[type(kind)] for kind in required)]


def refusal(payload: bytes) -> wire.Undecodable:
    with pytest.raises(wire.Undecodable) as caught:
        wire.decode_request(payload)
    return caught.value


# Recorded from version 2 of the protocol: whoever speaks it must be understood by later programs, byte for byte

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
MESSAGE = Message(
    id=7, queue="jobs", sender="alice", receiver="bob", context=-1, priority=9, arrived_at=AT, deliveries=2,
    headers={"a": "b"}, body=b"\x00\xff",
)  # fmt: skip
QUEUE = Queue(
    id=3, name="jobs", creator="alice", created_at=AT, owner=None, messages=4, exclude_own=True, max_body=100,
    max_deliveries=2, dead_letter="dead",
)  # fmt: skip
FULL_DRAFT = Draft(
    queues=("jobs", "audit"), body=b"hi", receiver="bob", priority=9, context=-1, headers={"a": "b"}, delay=1.5,
    ttl=2.5, allow_unknown=True,
)  # fmt: skip
FULL_SELECTION = Selection(queue="jobs", sender="alice", context=-1, order="arrival", count=3)
FULL_OPTIONS: dict[str, Any] = {"exclude_own": True, "max_body": 100, "max_deliveries": 2, "dead_letter": "dead"}
RECORDED: list[tuple[wire.Request | wire.Answer, str]] = [
    (
        wire.Send(1, drafts=[FULL_DRAFT, Draft(("jobs",), b"")], key="key"),
        "940a01929992a46a6f6273a56175646974c4026869a3626f6209ff81a161a162cb3ff8000000000000cb4004000000000000c3"
        "9991a46a6f6273c400c005c0c0c0c0c2a36b6579",
    ),
    (
        wire.Receive(2, selection=FULL_SELECTION, wait=1.5),
        "960b0295a46a6f6273a5616c696365ffa76172726976616c03cb3ff8000000000000c290",
    ),
    (wire.Peek(3, Selection()), "940c0395c0c0c0a87072696f7269747901c0"),
    (wire.Lease(4, Selection("jobs"), seconds=5.0), "960d0495a46a6f6273c0c0a87072696f7269747901cb4014000000000000c0c2"),
    (wire.Ack(5, message=7, token=-8), "940e0507f8"),
    (wire.Nack(6, message=7, token=-8, delay=1.0), "950f0607f8cb3ff0000000000000"),
    (wire.Extend(7, message=7, token=-8, seconds=9.0), "95100707f8cb4022000000000000"),
    (wire.CreateQueue(8, "jobs", exist_ok=True, **FULL_OPTIONS), "991408a46a6f6273c3c2c36402a464656164"),
    (wire.CreateQueue(9, "jobs"), "991409a46a6f6273c2c2c2c0c0c0"),
    (
        wire.Leases(4, [Leased(message=MESSAGE, token=-8)]),
        "93690491929a07a46a6f6273a5616c696365a3626f62ff09d6ff695735a50281a161a162c40200fff8",
    ),
    (
        wire.Queues(8, [QUEUE]),
        "936a08919a03a46a6f6273a5616c696365d6ff695735a5c004c36402a464656164",
    ),
]


@pytest.mark.parametrize(("said", "recorded"), RECORDED, ids=lambda value: type(value).__name__)
def test_what_was_recorded_is_what_is_said_and_understood(said: wire.Request | wire.Answer, recorded: str) -> None:
    payload = bytes.fromhex(recorded)
    assert wire.encode(said) == payload
    decode = wire.decode_request if isinstance(said, REQUESTS) else wire.decode_answer
    assert decode(payload) == said


# Round trips


@each_request
@some_examples
@given(data=st.data())
def test_a_request_survives_the_wire(struct: type[wire.Frame], data: st.DataObject) -> None:
    request = data.draw(structs(struct))
    assert wire.decode_request(wire.encode(request)) == request


@each_answer
@some_examples
@given(data=st.data())
def test_an_answer_survives_the_wire(struct: type[wire.Frame], data: st.DataObject) -> None:
    answer = data.draw(structs(struct))
    assert wire.decode_answer(wire.encode(answer)) == answer


@cut_in_any_way
@given(
    requests=st.lists(st.one_of([structs(struct) for struct in REQUESTS]), max_size=5), trailing=st.binary(max_size=3)
)
def test_a_pipeline_survives_in_any_pieces(cut: Cut, requests: list[wire.Request], trailing: bytes) -> None:
    stream = b"".join(frame(wire.encode(request)) for request in requests) + trailing
    assert [wire.decode_request(payload) for payload in read(FrameReader(LIMIT), cut(stream))] == requests


@cut_in_any_way
@some_examples
@given(answers=st.lists(st.one_of([structs(struct) for struct in ANSWERS]), max_size=5), trailing=st.binary(max_size=3))
def test_answers_survive_in_any_pieces(cut: Cut, answers: list[wire.Answer], trailing: bytes) -> None:
    stream = b"".join(frame(wire.encode(answer)) for answer in answers) + trailing
    assert [wire.decode_answer(payload) for payload in read(FrameReader(LIMIT), cut(stream))] == answers


@given(structs(Message))
def test_a_time_is_a_timestamp_of_messagepack(message: Message) -> None:
    extension = msgspec.msgpack.encode(message.arrived_at)
    assert (extension[0], extension[1:2] if extension[0] != 0xC7 else extension[2:3]) in [
        (0xD6, b"\xff"), (0xD7, b"\xff"), (0xC7, b"\xff"),
    ]  # fmt: skip
    assert extension in wire.encode(wire.Messages(1, [message]))


@pytest.mark.parametrize(
    ("packed_time", "seconds", "micros"),
    [
        (b"\xd6\xff\x00\x00\x00\x01", 1, 0),
        (b"\xd7\xff" + ((500_000 << 34) | 3).to_bytes(8, "big"), 3, 500),
        (b"\xc7\x0c\xff" + (2000).to_bytes(4, "big") + (5).to_bytes(8, "big"), 5, 2),
    ],
)
def test_all_three_forms_of_a_timestamp_are_read(packed_time: bytes, seconds: int, micros: int) -> None:
    array = msgspec.msgpack.encode([104, 1, [[1, "q", "s", None, None, 5, 0, 0, None, b""]]])
    at = array.rindex(b"\x05\x00") + 1
    answer = wire.decode_answer(array[:at] + packed_time + array[at + 1 :])
    assert isinstance(answer, wire.Messages)
    assert answer.messages[0].arrived_at == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(
        seconds=seconds, microseconds=micros
    )


# Kinds and fields


def test_kinds_are_unique_and_tell_requests_from_answers() -> None:
    kinds = [kind_of(struct) for struct in (*REQUESTS, *ANSWERS)]
    assert len(set(kinds)) == len(kinds)
    assert all(0 < kind_of(struct) < 100 for struct in REQUESTS)
    assert all(100 <= kind_of(struct) < 200 for struct in ANSWERS)


@each_request
def test_fields_with_a_default_may_be_left_out_from_the_end(struct: type[wire.Frame]) -> None:
    array = smallest(struct)
    request = wire.decode_request(msgspec.msgpack.encode(array))
    assert type(request) is struct
    everything = msgspec.to_builtins(request, builtin_types=(bytes,))
    for length in range(len(array), len(everything) + 1):
        assert wire.decode_request(msgspec.msgpack.encode(everything[:length])) == request


@each_request
def test_a_field_too_few_or_too_many_is_refused_under_its_id(struct: type[wire.Frame]) -> None:
    array = smallest(struct)
    if required_of(struct):
        assert refusal(msgspec.msgpack.encode(array[:-1])).request_id == 7
    everything = msgspec.to_builtins(wire.decode_request(msgspec.msgpack.encode(array)), builtin_types=(bytes,))
    assert refusal(msgspec.msgpack.encode([*everything, None])).request_id == 7


@each_request
@some_examples
@given(data=st.data())
def test_a_value_of_another_type_is_refused_under_its_id(struct: type[wire.Frame], data: st.DataObject) -> None:
    array = msgspec.to_builtins(wire.decode_request(msgspec.msgpack.encode(smallest(struct))), builtin_types=(bytes,))
    if len(array) > 2:
        place = data.draw(st.integers(2, len(array) - 1))
        array[place] = {"no": "field is a map"}
        error = refusal(msgspec.msgpack.encode(array))
        assert error.request_id == 7
        assert f"$[{place}]" in str(error)


@pytest.mark.parametrize(
    "payload",
    [
        packed(22, 7, 1.5),
        packed(10, 7, []),
        packed(10, 7, [[[], b""]]),
        packed(10, 7, [[["q"], "text is not bytes"]]),
        packed(10, 7, [[["q"], b"", None, 2**15]]),
        packed(10, 7, [[["q"], b"", None, 5, 2**63]]),
        packed(10, 7, [[["q"], b"", None, 5, None, {"key": 1}]]),
        packed(10, 7, [[["q"], b"", None, 5, None, None, float("nan")]]),
        packed(10, 7, [[["q"], b"", None, 5, None, None, float("inf")]]),
        packed(10, 7, [[["q"], b""]] * 10_001),
        packed(10, 7, [[["q"] * 1_001, b""]]),
        packed(11, 7, ["q", None, None, "by size"]),
        packed(11, 7, ["q", None, None, "priority", 0]),
        packed(11, 7, ["q", None, None, "priority", 10_001]),
        packed(20, 7, "x" * 1_001),
        packed(20, 7, "q", 1),
        packed(1, 7, 1, "alice", "admin"),
        packed(30, 7, "abc").replace(b"abc", b"\xed\xa0\x80"),  # half of a surrogate pair
        packed(99, 7),
        packed(100, 7),
        packed(-1, 7),
        packed(2**64 - 1, 7),
        packed("Send", 7),
        packed(None, 7),
        packed([], 7),
    ],
)  # fmt: skip
def test_what_a_request_may_not_say_is_refused_under_its_id(payload: bytes) -> None:
    assert refusal(payload).request_id == 7


@pytest.mark.parametrize("request_id", [True, False, None, -1, 2**63, 7.0, "7", b"7", [7], {"7": 7}])
def test_what_is_no_id_is_answered_with_none(request_id: object) -> None:
    error = refusal(packed(31, request_id))
    assert (error.request_id, type(error.request_id)) == (0, int)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xc1",
        packed(),
        packed(2),
        packed(2, 7)[:-1],
        packed(2, 7) + b"\x00",
        msgspec.msgpack.encode({"kind": 2}),
        msgspec.msgpack.encode("text"),
        b"\xdd\xff\xff\xff\xff\x02\x07",
        b"\x93\x02\x07\xc6\xff\xff\xff\xff",
        b"\x91" * 100_000 + b"\xc0",
        b"\x93\x02\x07" + b"\x91" * 100_000 + b"\xc0",
        b"\x93\x02\x07\x81\x80",
    ],
)
def test_what_is_no_request_at_all_is_refused_without_an_id(payload: bytes) -> None:
    assert refusal(payload).request_id == 0


@given(anything.map(msgspec.msgpack.encode) | st.binary(max_size=60))
def test_anything_is_a_request_or_refused(payload: bytes) -> None:
    decoded: wire.Request | wire.Undecodable
    try:
        decoded = wire.decode_request(payload)
    except wire.Undecodable as error:
        decoded = error
    assert type(decoded) in (*REQUESTS, wire.Undecodable)


def test_refusing_takes_no_memory_for_what_is_refused() -> None:
    elements = 200_000  # empty arrays: one byte each on the wire, some sixty in memory
    payload = b"\xdd" + elements.to_bytes(4, "big") + packed(2, 7)[1:] + b"\x90" * (elements - 2)
    tracemalloc.start()
    try:
        assert refusal(payload).request_id == 7
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < elements


def test_a_refusal_does_not_quote_at_length() -> None:
    error = refusal(packed(11, 7, ["q", None, None, "x" * 100_000]))
    assert error.request_id == 7
    assert len(str(error)) < 500


# Errors


@pytest.mark.parametrize("kind", errors.BY_CODE.values())
def test_an_error_survives_the_wire(kind: type[errors.StafetteError]) -> None:
    failed = wire.decode_answer(wire.encode(wire.failure(7, kind("so it is"))))
    assert isinstance(failed, wire.Failed)
    assert (failed.id, failed.code, failed.name, failed.sentence) == (7, kind.code, kind.__name__, "so it is")
    assert failed.group == {1: "caller", 2: "again", 3: "ours"}[kind.code // 100]
    error = wire.to_error(failed)
    assert (type(error), str(error)) == (kind, "so it is")


def test_a_special_case_of_an_error_goes_by_the_name_of_its_code() -> None:
    assert wire.failure(7, wire.Undecodable("no", 7)).name == "InvalidRequest"
