"""The reference that is made from the code has everything, and the examples beside it leave nothing out."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import stafette
import stafette.aio
import stafette.lab.behaviours
from stafette.cli.app import COMMANDS
from stafette.cli.lazy import load
from stafette.web.api.answers import operations
from stafette.web.app import make_app
from stafette.web.site import WebSettings
from tests.support.document_pages import ROOT, blocks

DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def reference() -> Any:
    """The part of the site's build that makes Markdown."""
    spec = importlib.util.spec_from_file_location("reference", DOCS / "_ext" / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from _commands(child, f"{path} {name}")


def test_every_command_with_every_option(reference: Any) -> None:
    sections = re.split(r"^#+ `(.+)`$", reference.filled((DOCS / "cli.md").read_text()), flags=re.MULTILINE)[1:]
    told = dict(zip(sections[::2], sections[1::2], strict=True))
    for name, lazy in COMMANDS.items():
        for path, command in _commands(load(name, lazy), f"stafette {name}"):
            for param in command.params:
                if param.param_type_name == "option":
                    row = rf"^\| `[^`]*{re.escape(param.opts[0])}(?![\w-])"
                    assert re.search(row, told[path], re.MULTILINE), f"{path} {param.opts}"
            assert command.help.partition("\n")[0] in told[path].replace("\\", "")


def _operations() -> list[tuple[str, str]]:
    nowhere = Path("/nonexistent")
    described = make_app(WebSettings(database="", data=nowhere, runs=nowhere, experiments=nowhere)).openapi()
    return [(method, path) for path, method, _ in operations(described)]


def test_every_operation_is_told(reference: Any) -> None:
    told = reference.filled((DOCS / "rest.md").read_text())
    assert [f"{method} {path}" for method, path in _operations() if f"# `{method} {path}`\n" not in told] == []


def test_every_operation_has_an_example_that_runs() -> None:
    run = "\n".join(block.text for block in blocks(DOCS / "rest.md") if block.part == "run")
    shown = [(_method(options), f"/api/v1{path}") for path, options in re.findall(r"\bapi '?(/[^\s'?]*)(.*)", run)]
    for method, path in _operations():
        pattern = re.compile(re.sub(r"\{\w+\}", "[^/]+", path))
        assert any(method == called and pattern.fullmatch(where) for called, where in shown), f"{method} {path}"


def _method(options: str) -> str:
    given = re.search(r"--request (\w+)", options)
    return given[1] if given else "POST" if "--json" in options else "GET"


def test_every_public_name(reference: Any) -> None:
    told = set(re.findall(r"^\.\. auto\w+:: (\S+)$", reference.filled((DOCS / "python.md").read_text()), re.MULTILINE))
    public = {f"stafette.{name}" for name in stafette.__all__} - {"stafette.aio", "stafette.StafetteError"}
    public |= {f"stafette.aio.{name}" for name in stafette.aio.__all__}
    public |= {f"stafette.lab.behaviours.{name}" for name in ("Behaviour", "ClientContext", "Parameters")}
    assert public - told == set()


def test_a_folder_is_no_page_of_the_site(reference: Any) -> None:
    page = "[the code](../src), [those here](../experiments/), [one](../src/stafette/model.py#L3) and ![it](images)"
    assert reference.without_folders(page, DOCS) == (
        "the code, [those here](../experiments/README.md), [one](../src/stafette/model.py#L3) and ![it](images)"
    )
