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
from tests.support.queue_options import each_option, unset

SAMPLES: dict[str, Any] = {"flag": True, "number": 7, "queue": "failed"}


# Where they are spelled out, for type checkers and for those who read a signature


def test_the_wire_has_every_option() -> None:
    own = {"id", "queue", "exist_ok", "again"}
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
