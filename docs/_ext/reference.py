"""Reference that cannot go stale: Markdown made from the code when the site is built.

A page says where it wants it with a comment, which readers of the plain file do not see::

    <!-- generated: cli -->
    <!-- generated: rest -->
    <!-- generated: python stafette.Client -->
    <!-- generated: contents -->           in the map: the site's navigation, from the map's own links
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import typer

from stafette.cli.app import COMMANDS
from stafette.cli.lazy import load
from stafette.web.api.answers import operations
from stafette.web.app import make_app
from stafette.web.site import WebSettings

PLACE = re.compile(r"^<!-- generated: (?P<what>\w+) ?(?P<name>[\w.]*) -->$", re.MULTILINE)
LINK = re.compile(r"\[([^]]+)\]\(([^)#]+\.md)\)")
ANY_LINK = re.compile(r"(?<!!)\[(?P<text>[^]]+)\]\((?P<target>[^)#:\s]+)\)")
EXAMPLE = "Example: "
REFUSED = 400
NOWHERE = Path("/nonexistent")
API = make_app(WebSettings(database="", data=NOWHERE, runs=NOWHERE, experiments=NOWHERE)).openapi()
"""Made before autodoc looks at any model: it leaves pydantic unable to make further ones."""
BOUNDS = {"minimum": "≥", "maximum": "≤"}


def filled(text: str) -> str:
    """A page with what it wants generated."""

    def made(place: re.Match[str]) -> str:
        found = contents(text) if place["what"] == "contents" else MAKERS[place["what"]](place["name"])
        return "\n".join(found)

    return PLACE.sub(made, text)


def without_folders(text: str, here: Path) -> str:
    """A page whose links to folders, which GitHub shows and a site does not have, lead to their README, or are text."""

    def link(found: re.Match[str]) -> str:
        folder = Path(found["target"])
        if not (here / folder).is_dir():
            return found[0]
        return f"[{found['text']}]({folder / 'README.md'})" if (here / folder / "README.md").exists() else found["text"]

    return ANY_LINK.sub(link, text)


def contents(text: str) -> Iterator[str]:
    """For each section of the map a list of the pages that it names; a page that none names fails the build."""
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        yield from ("```{toctree}", ":hidden:", f":caption: {section.partition(chr(10))[0]}", "")
        yield from (f"{title[:1].upper()}{title[1:]} <{page}>" for title, page in LINK.findall(section))
        yield from ("```", "")


# The command


def cli(_name: str) -> Iterator[str]:
    """Every command with its arguments and options."""
    for name, lazy in COMMANDS.items():
        yield from _command(load(name, lazy), f"stafette {name}", 3)


def _command(command: Any, path: str, level: int) -> Iterator[str]:
    context = typer.Context(command, info_name=path)
    text, _, example = (command.help or "").partition(EXAMPLE)
    inner = getattr(command, "commands", {})
    yield from (f"{'#' * level} `{path}`", "", _prose(text), "")
    if command.params or not inner:
        pieces = [piece.strip("{}") for piece in command.collect_usage_pieces(context)]
        yield from ("```text", " ".join([path, *pieces]), "```", "")
        records = [param.get_help_record(context) for param in command.params]
        yield from _table(("", "meaning"), [(_code(record[0]), _prose(record[1])) for record in records if record])
    if example:
        yield from ("```text", *example.strip().split(", or: "), "```", "")
    for name, child in inner.items():
        yield from _command(child, f"{path} {name}", min(level + 1, 4))


# The REST API


def rest(_name: str) -> Iterator[str]:
    """Every operation, by what it is about, then every schema."""
    groups: dict[str, list[tuple[str, str, dict[str, Any]]]] = {}
    for path, method, operation in operations(API):
        groups.setdefault(operation["tags"][0], []).append((path, method, operation))
    for group, found in groups.items():
        yield from (f"### {group.capitalize()}", "")
        for path, method, operation in found:
            yield from _operation(path, method, operation)
    yield from ("### Schemas", "")
    for name, schema in sorted(API["components"]["schemas"].items()):
        yield from _schema(name, schema)


def _operation(path: str, method: str, operation: dict[str, Any]) -> Iterator[str]:
    yield from (f"#### `{method} {path}`", "", _prose(operation.get("description", operation["summary"])), "")
    yield from _table(
        ("parameter", "in", "kind", "meaning"),
        [
            (
                _code(parameter["name"]),
                parameter["in"],
                _kind(parameter["schema"]) + _default(parameter["schema"]),
                _prose(parameter.get("description", "")),
            )
            for parameter in operation.get("parameters", [])
        ],
    )
    if body := operation.get("requestBody"):
        yield from (f"Takes {_kind(body['content']['application/json']['schema'])} as JSON.", "")
    answers = {int(status): answer for status, answer in sorted(operation["responses"].items())}
    for status, answer in answers.items():
        if status < REFUSED:
            content = answer.get("content", {}).get("application/json", {}).get("schema")
            yield f"Answers {status}{f' with {_kind(content)}' if content else ''};"
    refusals = ", ".join(str(status) for status in answers if status >= REFUSED)
    yield from (f"refuses with {refusals} and {_link('Problem')}.", "")


def _schema(name: str, schema: dict[str, Any]) -> Iterator[str]:
    yield from (f"({_anchor(name)})=", f"#### {name}", "", _prose(schema.get("description", "").partition("\n")[0]), "")
    needed = schema.get("required", [])
    yield from _table(
        ("field", "kind", "needed", "meaning"),
        [
            (
                _code(field),
                _kind(kind) + _default(kind),
                "yes" if field in needed else "no",
                _prose(kind.get("description", "")),
            )
            for field, kind in schema.get("properties", {}).items()
        ],
    )


def _kind(schema: dict[str, Any]) -> str:
    """A type in a few words, with a link to a schema."""
    if "$ref" in schema:
        return _link(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " or ".join(_kind(one) for one in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(_code(str(one)) for one in schema["enum"])
    kind = str(schema.get("type", "anything"))
    if kind == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    kind = str(schema.get("format", kind)) if kind == "string" else kind
    return " ".join([kind, *(f"{sign} {_number(schema[key])}" for key, sign in BOUNDS.items() if key in schema)])


def _number(value: float) -> str:
    """Bounds of the database's integers are better known as powers."""
    powers = {sign * 2**power - (sign > 0): power for power in (31, 63) for sign in (1, -1)}
    if value in powers:
        return f"2^{powers[int(value)]} − 1" if value > 0 else f"−2^{powers[int(value)]}"
    return str(int(value) if value == int(value) else value)


def _default(schema: dict[str, Any]) -> str:
    return f"; {_code(json.dumps(schema['default']))} by default" if schema.get("default") not in (None, "") else ""


def _link(name: str) -> str:
    return f"[{name}](#{_anchor(name)})"


def _anchor(name: str) -> str:
    return f"schema-{name.lower()}"


# The Python API


def python(name: str) -> Iterator[str]:
    """A module, class or function with its docstring; what autodoc needs to be told depends on which it is."""
    yield from ("```{eval-rst}", f".. {_directive(name)}:: {name}")
    if _directive(name) == "autoclass":
        yield from ("   :members:", "   :undoc-members:", "   :member-order: bysource")
        yield "   :exclude-members: Parameters, model_config"
    yield from ("```", "")


def _directive(name: str) -> str:
    module, _, attribute = name.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ModuleNotFoundError, ValueError):
        return "automodule"
    if isinstance(found, type):
        return "autoexception" if issubclass(found, Exception) else "autoclass"
    return "autofunction" if callable(found) else "automodule"


# Markdown


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    found = [" | ".join(cell.replace("|", "\\|") for cell in row) for row in rows]
    if found:
        yield from (f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *(f"| {row} |" for row in found), "")


def _prose(text: str) -> str:
    """A docstring's text, with nothing in it that Markdown would take for more than text."""
    return re.sub(r"(?<![`\w])([\[<*_])", r"\\\1", text.strip().replace("``", "`"))


def _code(text: str) -> str:
    return f"`{text}`"


MAKERS: dict[str, Callable[[str], Iterator[str]]] = {"cli": cli, "rest": rest, "python": python}
