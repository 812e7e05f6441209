"""The options of a queue are described once: whoever makes or shows a queue has each of them, as described."""

from __future__ import annotations

import inspect
from typing import Any, get_type_hints

import msgspec
import pytest
import typer

from stafette.cli.queue import app
from stafette.client import aio
from stafette.database.views import QueueRow
from stafette.errors import InvalidRequest
from stafette.model import QUEUE_OPTIONS, Queue, QueueOption, QueueOptions
from stafette.protocol import messages as wire
from stafette.web import fields
from stafette.web.api.parameters import NewQueue
from tests.support.reference_pages import codes, rows, section

each_option = pytest.mark.parametrize(("name", "option"), QUEUE_OPTIONS.items(), ids=QUEUE_OPTIONS)
SAMPLES: dict[str, Any] = {"flag": True, "number": 7, "queue": "failed"}


def unset(option: QueueOption) -> bool | None:
    return False if option.kind == "flag" else None


def test_every_option_is_described_as_what_it_is() -> None:
    hints = get_type_hints(QueueOptions)
    assert {name: option.type for name, option in QUEUE_OPTIONS.items()} == hints
    assert msgspec.structs.asdict(QueueOptions()) == {name: unset(option) for name, option in QUEUE_OPTIONS.items()}


@each_option
def test_a_description_says_all_that_its_kind_needs(name: str, option: QueueOption) -> None:
    assert option.help.endswith(".")
    assert option.label
    if option.kind == "number":
        assert option.default is not None
        assert option.bounds[0] <= option.default <= option.bounds[1]
    else:
        assert (option.default, option.unit) == (None, "")
    assert (option.bounds == (0, 0)) == (option.kind == "flag")


def test_options_are_made_from_values_by_name() -> None:
    assert QueueOptions.from_values({}) == QueueOptions()
    assert QueueOptions.from_values({"max_body": 3, "dead_letter": None}) == QueueOptions(max_body=3)


def test_only_what_is_given_is_written() -> None:
    assert msgspec.json.encode(QueueOptions()) == b"{}"
    assert msgspec.json.encode(QueueOptions(max_body=0, exclude_own=True)) == b'{"exclude_own":true,"max_body":0}'


def test_an_unknown_option_is_refused_with_those_there_are() -> None:
    there_are = "dead_letter, exclude_own, max_body, max_deliveries"
    with pytest.raises(InvalidRequest, match=f"^a queue has no option colour; its options are {there_are}"):
        QueueOptions.from_values({"max_body": 3, "colour": "red"})


def test_a_value_of_another_type_is_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"not valid: Expected `int \| null`, got `str` - at `\$.max_body`"):
        QueueOptions.from_values({"max_body": "lots"})


# Where they are spelled out, for type checkers and for those who read a signature


def test_the_wire_has_every_option() -> None:
    own = {"id", "queue", "exist_ok"}
    hints = get_type_hints(wire.CreateQueue)
    assert [name for name in wire.CreateQueue.__struct_fields__ if name not in own] == list(QUEUE_OPTIONS)
    assert all(hints[name] == option.type for name, option in QUEUE_OPTIONS.items())
    assert wire.CreateQueue(1, "jobs").options == QueueOptions()
    values = {name: SAMPLES[option.kind] for name, option in QUEUE_OPTIONS.items()}
    assert wire.CreateQueue(1, "jobs", exist_ok=True, **values).options == QueueOptions(**values)


@each_option
def test_the_client_has_every_option(name: str, option: QueueOption) -> None:
    parameter = inspect.signature(aio.Client.create_queue, eval_str=True).parameters[name]
    assert (parameter.annotation, parameter.default) == (option.type, unset(option))


@each_option
@pytest.mark.parametrize("shown", [Queue, QueueRow], ids=lambda shown: shown.__name__)
def test_a_queue_shows_every_option(shown: type[msgspec.Struct], name: str, option: QueueOption) -> None:
    in_force = {"flag": bool, "number": int, "queue": str | None}
    assert get_type_hints(shown)[name] == in_force[option.kind]


# Where they are made from the description


@each_option
def test_the_command_has_a_flag_for_every_option(name: str, option: QueueOption) -> None:
    command: Any = typer.main.get_command(app)
    [flag] = [param for param in command.commands["create"].params if param.name == name]
    assert (flag.opts, flag.help) == ([f"--{name.replace('_', '-')}"], option.help)
    assert getattr(flag.type, "min", None) == (option.bounds[0] if option.kind == "number" else None)


@each_option
def test_the_rest_api_has_every_option_with_its_bounds(name: str, option: QueueOption) -> None:
    field = NewQueue.model_json_schema()["properties"][name]
    assert (field["description"], field["default"]) == (option.help, unset(option))
    if option.kind != "flag":
        low, high = ("minimum", "maximum") if option.kind == "number" else ("minLength", "maxLength")
        assert (field["anyOf"][0][low], field["anyOf"][0][high]) == option.bounds


def test_the_rest_api_hands_them_on() -> None:
    assert NewQueue.model_validate({"name": "jobs", "max_body": 3}).options == QueueOptions(max_body=3)


def test_the_form_is_read_by_the_description() -> None:
    assert fields.queue_options({}) == QueueOptions()
    assert fields.queue_options({"max_body": "", "dead_letter": ""}) == QueueOptions()
    filled = {"exclude_own": "1", "max_body": " 10 ", "max_deliveries": "2", "dead_letter": "failed"}
    expected = QueueOptions(exclude_own=True, max_body=10, max_deliveries=2, dead_letter="failed")
    assert fields.queue_options(filled) == expected
    with pytest.raises(InvalidRequest, match="max_deliveries: '0' is not a whole number between 1 and 32,767"):
        fields.queue_options({"max_deliveries": "0"})


# On paper


def test_every_option_is_in_the_reference() -> None:
    told = rows(section("configuration.md", "Options of a queue"))
    assert told == [
        [f"`{name}`", f"`--{name.replace('_', '-')}`", *_shown(option), option.help]
        for name, option in QUEUE_OPTIONS.items()
    ]


def _shown(option: QueueOption) -> tuple[str, str]:
    if option.kind == "number":
        unit = f" {option.unit}" if option.unit else ""
        return f"{option.bounds[0]:,} to {option.bounds[1]:,}{unit}", f"{option.default:,}"
    return ("yes or no", "no") if option.kind == "flag" else ("the name of a queue", "none")


@each_option
def test_the_wires_document_has_the_bounds_and_the_default(name: str, option: QueueOption) -> None:
    [row] = [row for row in rows(section("protocol.md", "20 CreateQueue")) if codes(row[0]) == [name]]
    if option.kind == "number":
        assert f"{option.bounds[0]:,} to {option.bounds[1]:,}; nil: {option.default:,}" in row[3]
