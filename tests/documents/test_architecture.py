"""The walks through the code name files and functions that are there."""

from __future__ import annotations

import re

import pytest

from tests.support.document_pages import ROOT

TEXT = (ROOT / "ARCHITECTURE.md").read_text()
STEP = re.compile(r"`(?P<path>[a-z_/]+\.(?:py|sql))` `(?P<name>\w+)`")
DEFINITION = r"^\s*(?:async def|def|class|CREATE (?:OR REPLACE )?FUNCTION stafette\.) ?{name}\b|^{name}\b.*="


def walk(title: str) -> list[tuple[str, str]]:
    """The steps of a walk: files, each with a name that is defined there."""
    section = TEXT.split(f"## {title}\n")[1].split("\n## ")[0]
    return [(step["path"], step["name"]) for step in STEP.finditer(section)]


@pytest.mark.parametrize("step", [*walk("The walk of a message"), *walk("The walk of a trace")], ids=" ".join)
def test_each_step_is_there(step: tuple[str, str]) -> None:
    path, name = step
    source = (ROOT / "src/stafette" / path).read_text()
    assert re.search(DEFINITION.format(name=name), source, re.MULTILINE), f"{path} defines no {name}"
