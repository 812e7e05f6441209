"""What the tests of the protocol know of its structs: which there are, values for them, and words for their types."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, get_args

import msgspec
from hypothesis import strategies as st
from msgspec import inspect as types

from stafette.model import Client, Draft, Leased, Message, Queue, Selection
from stafette.protocol import messages as wire

REQUESTS: tuple[type[wire.Frame], ...] = get_args(wire.Request)
ANSWERS: tuple[type[wire.Frame], ...] = get_args(wire.Answer)
PARTS: tuple[type[msgspec.Struct], ...] = (Draft, Selection, Leased, Message, Queue, Client)

LARGEST_TRIED = 3
"""Elements of an array or map: more would only take longer."""


def kind_of(struct: type[msgspec.Struct]) -> int:
    tag = struct.__struct_config__.tag
    assert isinstance(tag, int)
    return tag


def fields_of(struct: type[msgspec.Struct]) -> tuple[types.Field, ...]:
    """The fields after kind and id."""
    info = types.type_info(struct)
    assert isinstance(info, types.StructType)
    return info.fields[1:] if issubclass(struct, wire.Frame) else info.fields


def required_of(struct: type[msgspec.Struct]) -> int:
    return sum(field.default is msgspec.NODEFAULT for field in fields_of(struct))


def values(kind: types.Type) -> st.SearchStrategy[Any]:
    """Any value that a type allows."""
    match kind:
        case types.IntType():
            low = -(2**63) if kind.ge is None else kind.ge
            return st.integers(low, 2**64 - 1 if kind.le is None else kind.le)
        case types.StrType():
            return st.text(max_size=20)
        case types.FloatType():
            return st.floats(kind.ge, kind.le)
        case types.BytesType():
            return st.binary(max_size=20)
        case types.BoolType():
            return st.booleans()
        case types.NoneType():
            return st.none()
        case types.LiteralType():
            return st.sampled_from(kind.values)
        case types.DateTimeType():
            return st.datetimes(datetime(1970, 1, 1), datetime(2500, 1, 1), timezones=st.just(UTC))
        case types.DictType():
            return st.dictionaries(values(kind.key_type), values(kind.value_type), max_size=LARGEST_TRIED)
        case types.ListType() | types.VarTupleType():
            several = st.lists(values(kind.item_type), min_size=kind.min_length or 0, max_size=LARGEST_TRIED)
            return several.map(tuple) if isinstance(kind, types.VarTupleType) else several
        case types.UnionType():
            return st.one_of([values(one) for one in kind.types])
        case types.StructType():
            return structs(kind.cls)
    raise AssertionError(kind)


def structs(struct: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    """Any instance of a struct."""
    info = types.type_info(struct)
    assert isinstance(info, types.StructType)
    return st.builds(struct, *(values(field.type) for field in info.fields))


# The words of docs/protocol.md

_NUMBERS = {
    (0, 2**63 - 1): "id",
    (-(2**15), 2**15 - 1): "small",
    (-(2**63), 2**63 - 1): "long",
    (1, 10_000): "count",
    (None, None): "integer",
}
_CHOICES: dict[tuple[str, ...], str] = {
    ("full", "read-only"): "mode",
    ("arrival", "priority"): "order",
    ("done", "not done", "unknown"): "outcome",
}
_WORDS = {
    types.FloatType: "seconds",
    types.BytesType: "bytes",
    types.BoolType: "boolean",
    types.DateTimeType: "time",
    types.NoneType: "nil",
}


def described(kind: types.Type) -> str:
    """The document's word for a type."""
    match kind:
        case types.IntType():
            return _NUMBERS[kind.ge, kind.le]
        case types.StrType():
            return {1000: "name", None: "string"}[kind.max_length]
        case types.LiteralType():
            return _CHOICES[tuple(sorted(str(value) for value in kind.values))]
        case types.DictType():
            return f"map of {described(kind.value_type)}"
        case types.ListType() | types.VarTupleType():
            size = "" if kind.max_length is None else f", {kind.min_length} to {kind.max_length:,}"
            return f"array of {described(kind.item_type)}{size}"
        case types.StructType():
            return f"`{kind.cls.__name__}`"
        case types.UnionType():
            return " or ".join(sorted(map(described, kind.types), key=("nil", "id").__contains__))
    return _WORDS[type(kind)]


def shown_default(field: types.Field) -> str:
    """The document's way to write a default."""
    match field.default:
        case msgspec.UnsetType() | None:
            return "nil"
        case False:
            return "false"
        case b"" | ():
            return "empty"
        case str(text):
            return f'`"{text}"`'
        case value if value is msgspec.NODEFAULT:
            return ""
        case value:
            return str(value)
