"""How commands print: a record as lines on a terminal or in a pipe, as one JSON object with --json."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def show_record(record: Mapping[str, object], *, as_json: bool) -> None:
    """Print the facts of one thing."""
    if as_json:
        print(msgspec.json.encode(record).decode())
    elif sys.stdout.isatty():
        table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
        for name, value in record.items():
            table.add_row(name, _plain(value))
        Console().print(table)
    else:
        for name, value in record.items():
            print(f"{name}\t{_plain(value)}")


def _plain(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def say(sentence: str) -> None:
    """Tell the person something that is not data."""
    print(sentence, file=sys.stderr)
