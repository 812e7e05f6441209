"""The contract on paper is the one in the code: every kind, field, type, default, code and limit, and the examples."""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stafette import errors
from stafette.broker import limits
from stafette.broker.core.operation import READS
from stafette.broker.server import FAREWELL_SECONDS
from stafette.protocol import messages as wire
from stafette.protocol.frames import FrameReader
from tests.support.byte_streams import Cut, cut_in_any_way, read
from tests.support.protocol_examples import EXAMPLES, Example
from tests.support.protocol_structs import ANSWERS, PARTS, REQUESTS, described, fields_of, kind_of, shown_default

DOCUMENT = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text()


def section(title: str) -> str:
    """The text between a heading and the next of the same or a higher level."""
    found = re.search(rf"^(#+) {re.escape(title)}\n(.*?)(?=^#{{1,2}} |^\1 |\Z)", DOCUMENT, re.MULTILINE | re.DOTALL)
    assert found, f"the document has no section {title}"
    return found[2]


def rows(text: str) -> list[list[str]]:
    """The rows of the tables in a text, without their heads."""
    tables = re.findall(r"^\|.*\|\n\|[-|]+\|\n((?:\|.*\|\n)*)", text, re.MULTILINE)
    return [[cell.strip() for cell in row[1:-1].split("|")] for table in tables for row in table.splitlines()]


def headings(text: str) -> list[str]:
    return re.findall(r"^### (.+)$", text, re.MULTILINE)


def title_of(struct: type[msgspec.Struct]) -> str:
    return f"{kind_of(struct)} {struct.__name__}" if issubclass(struct, wire.Frame) else struct.__name__


# Tables


def test_every_request_answer_and_part_has_its_section_and_there_are_no_others() -> None:
    assert headings(section("All requests")) == [title_of(struct) for struct in REQUESTS]
    assert headings(section("All answers")) == [title_of(struct) for struct in ANSWERS]
    assert headings(section("Parts")) == [title_of(struct) for struct in PARTS]


@pytest.mark.parametrize("struct", [*REQUESTS, *ANSWERS, *PARTS], ids=lambda struct: struct.__name__)
def test_fields_types_and_defaults_are_those_of_the_code(struct: type[msgspec.Struct]) -> None:
    told = [row[:3] for row in rows(section(title_of(struct)))]
    assert told == [[f"`{field.name}`", described(field.type), shown_default(field)] for field in fields_of(struct)]


def test_every_type_that_is_used_is_explained() -> None:
    explained = {row[0].strip("`") for row in rows(section("Values"))}
    used = {
        word
        for struct in (*REQUESTS, *ANSWERS, *PARTS)
        for field in fields_of(struct)
        for word in re.split(r" or |array of |, \d.*", described(field.type))
        if word and not word.startswith("`")
    }
    assert used - {"nil"} <= explained
    assert explained - {"array of T", "T or nil"} <= used


def test_the_overview_lists_every_request_with_its_answer() -> None:
    overview = rows(section("Requests and answers"))
    assert [row[:2] for row in overview] == [[str(kind_of(struct)), f"`{struct.__name__}`"] for struct in REQUESTS]
    assert {row[2] for row in overview} <= {f"`{struct.__name__}`" for struct in ANSWERS}
    assert {row[1] for row in overview if row[3] == "yes"} == {
        f"`{struct.__name__}`" for struct in REQUESTS if struct not in {*READS, wire.Hello}
    }


def test_the_table_of_errors_is_the_tree_of_errors() -> None:
    told = [row[:3] for row in rows(section("Errors"))]
    failures = [wire.failure(1, kind("")) for _, kind in sorted(errors.BY_CODE.items())]
    assert told == [[str(failed.code), f"`{failed.name}`", f"`{failed.group}`"] for failed in failures]


def test_the_limits_are_those_of_the_broker() -> None:
    numbers = {
        row[0].strip("`"): [_number(text) for text in re.findall(r"\d[\d,]*", row[1])]
        for row in rows(section("Limits"))
    }
    defaults = limits.Limits()
    assert limits.SILENT_SECONDS == 3
    assert limits.HELLO_SECONDS == limits.FRAME_SECONDS
    assert numbers.pop("in_flight_bytes") == [defaults.in_flight_bytes, limits.SMALL_SHARE]
    assert numbers.pop("frames beyond 262,144 bytes that have arrived in part") == [limits.LARGE_FRAMES]
    assert limits.LARGE_FRAME == 262_144
    for name in (
        *("frame", "clients", "in_flight_per_client", "in_flight", "in_flight_bytes_per_client", "answer", "unsent"),
    ):
        assert numbers.pop(name) == [getattr(defaults, name)]
    assert numbers == {
        "frame before the welcome": [limits.HELLO_FRAME],
        "connections that have not said hello for 3 seconds": [limits.SILENT_CONNECTIONS],
        "hellos that wait for their welcome": [limits.PENDING_HELLOS, limits.SECRETS_WAITING],
        "time for a hello, and for the rest of a begun frame": [limits.HELLO_SECONDS],
        "unread answers": [limits.UNREAD_BYTES],
        "reading when that much is unread": [limits.FAIR_READ, limits.READ_SECONDS],
    }
    assert f"After {FAREWELL_SECONDS:g} seconds the broker hangs up" in " ".join(section("The end").split())
    assert f"for {limits.BROKER_LEASE_SECONDS:g} seconds at most" in " ".join(section("The end").split())


def test_the_version_is_the_one_we_speak() -> None:
    assert f"version {wire.VERSION}" in DOCUMENT.split("## ")[0]
    assert f"`version` is {wire.VERSION}" in section("Hello")


def test_links_within_the_document_lead_somewhere() -> None:
    anchors = {
        re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^#+ (.+)$", DOCUMENT, re.MULTILINE)
    }
    assert set(re.findall(r"\]\(#([^)]+)\)", DOCUMENT)) <= anchors


# Examples


each_example = pytest.mark.parametrize(
    "example", EXAMPLES, ids=[f"{number}-{example.name}" for number, example in enumerate(EXAMPLES, 1)]
)


def test_every_block_of_bytes_is_an_example_and_each_request_has_its_answer() -> None:
    assert len(EXAMPLES) == DOCUMENT.count("```hex ")
    assert [example.who for example in EXAMPLES] == ["client", "broker"] * (len(EXAMPLES) // 2)
    answers = {row[1].strip("`"): row[2].strip("`") for row in rows(section("Requests and answers"))}
    for asked, answered in zip(EXAMPLES[::2], EXAMPLES[1::2], strict=True):
        assert answered.name in (answers[asked.name], "Failed")
        assert _decoded(asked).id == _decoded(answered).id
    assert {"Hello", "CreateQueue", "Send", "Receive", "Failed"} <= {example.name for example in EXAMPLES}


@each_example
def test_an_example_decodes_to_what_the_text_says(example: Example) -> None:
    assert type(_decoded(example)).__name__ == example.name
    assert _written(msgspec.msgpack.decode(example.payload)) == example.says


@each_example
def test_an_example_is_what_we_would_send(example: Example) -> None:
    decoded = _decoded(example)
    if example.who == "broker":
        assert wire.encode(decoded) == example.payload
    else:  # we write trailing defaults out; they mean the same
        assert wire.decode_request(wire.encode(decoded)) == decoded


@each_example
@cut_in_any_way
def test_an_example_is_one_frame(example: Example, cut: Cut) -> None:
    reader = FrameReader(limits.HELLO_FRAME)
    assert read(reader, cut(example.stream)) == [example.payload]
    assert not reader.partial
    assert read(FrameReader(limits.HELLO_FRAME), cut(example.stream + b"\x00")) == [example.payload]


@each_example
def test_the_notes_beside_the_bytes_are_right(example: Example) -> None:
    length, array, kind, request_id, *_ = example.notes
    values = msgspec.msgpack.decode(example.payload)
    assert length == f"length: {len(example.payload)}"
    assert array == f"array of {len(values)}"
    assert kind == f"kind {values[0]}: {example.name}"
    assert request_id == f"id {values[1]}"


def _decoded(example: Example) -> Any:
    return (wire.decode_request if example.who == "client" else wire.decode_answer)(example.payload)


def _written(value: object) -> str:
    """A MessagePack value as the document writes it."""
    match value:
        case None:
            return "nil"
        case bytes(data):
            return f"b{json.dumps(data.decode())}"
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case list(items):
            return f"[{', '.join(map(_written, items))}]"
    return json.dumps(value)


def _number(text: str) -> int:
    return int(text.replace(",", ""))
