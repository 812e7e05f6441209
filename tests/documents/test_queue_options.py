"""The options of a queue on paper are those in the code."""

from __future__ import annotations

from stafette.model import QUEUE_OPTIONS, QueueOption
from tests.support.queue_options import each_option
from tests.support.reference_pages import codes, rows, section


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
