"""The options of a queue are described once, and made and written by their description."""

from __future__ import annotations

from typing import get_type_hints

import msgspec
import pytest

from stafette.errors import InvalidRequest
from stafette.model import QUEUE_OPTIONS, QueueOption, QueueOptions
from tests.support.queue_options import each_option, unset


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
