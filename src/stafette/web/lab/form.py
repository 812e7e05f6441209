"""An experiment as a form: its main fields, each a key of the file, read from the text and written back into it.

The text stays the document. A changed field changes one value and leaves comments and order as they are. What is not a
value of TOML is written as a string, which the checks of the experiment then refuse.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

import tomlkit
import tomlkit.exceptions
from tomlkit.items import Item

from stafette.errors import InvalidRequest
from stafette.lab.behaviours import BUILT_IN
from stafette.lab.experiment import toml_limits
from stafette.lab.experiment.thresholds import METRICS
from stafette.web.lab.editor_state import Field, Part

ADD, REMOVE = "+", "-"
"""The last part of a field's path that adds or removes a group or factor."""
TEXTS = frozenset({"name", "title", "question", "source", "design.kind", "design.order", "system.database"})
_KEY = re.compile(r"[A-Za-z0-9_-]+")
MAIN_METRICS = ("throughput", "mean_ms", "p99_ms", "error_share")
HINTS = {"throughput": ">= 1000", "errors": "== 0", "error_share": "< 0.01"}
KINDS = ("single", "sweep", "factorial", "2k")


def parts(text: str) -> list[Part]:
    """The form of a text that is valid TOML."""
    tables = _tables(text)
    return [
        Part("Experiment", [
            _field(tables, "name", "Name", "a-z, 0-9 and -"),
            _field(tables, "seed", "Seed", "1"),
            _field(tables, "title", "Title", "one line", wide=True),
            _field(tables, "question", "Question", "the question it answers", wide=True),
        ]),
        Part("Time", [
            _field(tables, "run.warm_up", "Warm-up (s)", "5.0"),
            _field(tables, "run.duration", "Measured (s)", "30.0"),
            _field(tables, "run.cool_down", "Cool-down (s)", "2.0"),
            _field(tables, "run.repetitions", "Repetitions", "3"),
        ]),
        Part("System", [
            _field(tables, "system.brokers", "Brokers", "1"),
            _field(tables, "system.workers", "Processes per broker", "1"),
            _field(tables, "system.connections", "Database connections", "4"),
            _field(tables, "preload.queues", "Queues", "20"),
            _field(tables, "preload.messages", "Messages at the start", "0"),
        ]),
        *_groups(tables),
        Part("More clients", [Field(f"clients.{ADD}", "Name of a new group", "", "such as readers")]),
        *_factors(tables),
        Part("Thresholds", [
            _field(tables, f"thresholds.{metric}", metric, HINTS.get(metric, "< 50"))
            for metric in dict.fromkeys([*MAIN_METRICS, *_keys(tables, "thresholds")])
            if metric in METRICS
        ]),
    ]  # fmt: skip


def _groups(tables: Mapping[str, Any]) -> Iterator[Part]:
    for name in _keys(tables, "clients"):
        behaviour = _get(tables, f"clients.{name}.behaviour")
        custom = (str(behaviour),) if behaviour is not None and behaviour not in BUILT_IN else ()
        fields = [
            _field(tables, f"clients.{name}.behaviour", "Behaviour", choices=(*BUILT_IN, *custom)),
            _field(tables, f"clients.{name}.count", "Clients", "required"),
            _field(tables, f"clients.{name}.think_time", "Think time (s)", "0 or { exponential = 0.01 }"),
            _field(tables, f"clients.{name}.rate", "Rate (steps/s)", "none: closed loop"),
        ]
        parameters = BUILT_IN[behaviour].Parameters.model_fields if behaviour in BUILT_IN else {}
        if "size" in parameters or _get(tables, f"clients.{name}.size") is not None:
            fields.insert(2, _field(tables, f"clients.{name}.size", "Message size (bytes)", "200"))
        fields.append(Field(f"clients.{name}.{REMOVE}", f"Remove {name}", "", kind="check"))
        yield Part(f"Clients: {name}", fields)


def _factors(tables: Mapping[str, Any]) -> Iterator[Part]:
    yield Part("Design", [
        _field(tables, "design.kind", "Kind", choices=KINDS, default="single"),
        Field(f"design.factors.{ADD}", "Name of a new factor", "", "such as clients"),
    ])  # fmt: skip
    for name in _keys(tables, "design.factors"):
        path = f"design.factors.{name}"
        yield Part(f"Factor: {name}", [
            _field(tables, f"{path}.set", "Sets", "clients.alice.count"),
            _field(tables, f"{path}.levels", "Levels", "[4, 16, 64]"),
            Field(f"{path}.{REMOVE}", f"Remove {name}", "", kind="check"),
        ])  # fmt: skip


def _field(
    tables: Mapping[str, Any], path: str, label: str, hint: str = "", *, choices: tuple[str, ...] = (),
    default: str = "", wide: bool = False,
) -> Field:  # fmt: skip
    value = _get(tables, path)
    text = default if value is None else _field_text(value)
    return Field(path, label, text, hint, choices, "select" if choices else "text", wide)


def _field_text(value: Any) -> str:
    return value if isinstance(value, str) else _inline(value)


def _inline(value: Any) -> str:
    """A value as TOML, on one line."""
    if isinstance(value, Mapping):
        pairs = (
            f"{key if _KEY.fullmatch(key) else json.dumps(key)} = {_inline(inner)}" for key, inner in value.items()
        )
        return f"{{ {', '.join(pairs)} }}" if value else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(_inline, value))}]"
    return str(tomlkit.item(value).as_string())


def _keys(tables: Mapping[str, Any], path: str) -> list[str]:
    table = _get(tables, path)
    return [key for key in table if "." not in key] if isinstance(table, Mapping) else []


def _get(tables: Any, path: str) -> Any:
    for key in path.split("."):
        tables = tables.get(key) if isinstance(tables, Mapping) else None
    return tables


def _tables(text: str) -> dict[str, Any]:
    try:
        return toml_limits.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"the text is not valid TOML, so the form cannot change it: {error}") from error


# Back into the text


def set_field(text: str, path: str, value: str) -> str:
    """The text with one field changed; an empty value removes the key."""
    _tables(text)
    document = tomlkit.parse(text)
    *parents, last = path.split(".")
    if last == ADD:
        _add(document, parents, value.strip())
    elif last == REMOVE:
        _remove(document, parents)
    elif value.strip():
        _table(document, parents)[last] = _value(path, value.strip())
    else:
        _drop(document, [*parents, last])
    new_text = tomlkit.dumps(document)
    _tables(new_text)  # raises if it is no longer valid
    return new_text


def _value(path: str, text: str) -> Item:
    if path in TEXTS or path.startswith("thresholds.") or path.endswith(".behaviour"):
        return tomlkit.string(text)
    if path.endswith(".levels") and not text.startswith("["):
        levels = _literal(f"[{text}]")
        return tomlkit.item([part.strip() for part in text.split(",")]) if levels is None else levels
    if path.endswith(".set") and not text.startswith(("[", "{")):
        return tomlkit.string(text)
    value = _literal(text)
    return tomlkit.string(text) if value is None else value


def _literal(text: str) -> Item | None:
    try:
        tomllib.loads(f"value = {text}")
        return tomlkit.value(text)
    except (ValueError, RecursionError, tomlkit.exceptions.TOMLKitError):
        return None


def _table(document: Any, path: list[str]) -> Any:
    """The table at a path, created if it is missing."""
    table = document
    for depth, key in enumerate(path, start=1):
        if key not in table:
            is_super_table = path[:depth] in (["clients"], ["design", "factors"])
            table[key] = tomlkit.table(is_super_table=is_super_table)
        table = table[key]
        if not isinstance(table, Mapping):
            raise InvalidRequest(f"{'.'.join(path[:depth])} is not a table; correct it in the text")
    return table


def _drop(document: Any, path: list[str]) -> None:
    table: Any = document
    for key in path[:-1]:
        if not isinstance(table, Mapping) or key not in table:
            return
        table = table[key]
    if isinstance(table, MutableMapping) and path[-1] in table:
        del table[path[-1]]


def _add(document: Any, parent: list[str], name: str) -> None:
    if not name or "." in name:
        raise InvalidRequest("a group or factor needs a name of a-z, 0-9, _ and -")
    if name in _table(document, parent):
        raise InvalidRequest(f"there is a {'.'.join(parent)}.{name} already; choose another name")
    table = tomlkit.table()
    if parent == ["clients"]:
        table["behaviour"] = name if name in BUILT_IN else "mix"
        table["count"] = 1
    else:
        first = next(iter(_get(document, "clients") or {}), "alice")
        table["set"] = f"clients.{first}.count"
        table["levels"] = [1, 2]
    table.add(tomlkit.nl())
    _table(document, parent)[name] = table
    _settle_kind(document)


def _remove(document: Any, path: list[str]) -> None:
    _drop(document, path)
    _settle_kind(document)


def _settle_kind(document: Any) -> None:
    """Make the kind of the design fit the number of its factors."""
    number, kind = len(_get(document, "design.factors") or {}), _get(document, "design.kind") or "single"
    if not number and kind != "single":
        _drop(document, ["design"])
    elif number == 1 and kind == "single":
        _table(document, ["design"])["kind"] = "sweep"
    elif number > 1 and kind in ("single", "sweep"):
        _table(document, ["design"])["kind"] = "factorial"
