"""How commands print: for people on a terminal, in lines with tabs in a pipe, as JSON with --json."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def show_record(record: Mapping[str, object], *, as_json: bool) -> None:
    """Print the facts of one thing."""
    if as_json:
        show_json(record)
    elif sys.stdout.isatty():
        table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
        for name, value in record.items():
            table.add_row(Text(name), Text(_plain(value)))
        Console().print(table)
    else:
        for name, value in record.items():
            print(f"{name}\t{_plain(value)}")


def show_json(value: object) -> None:
    """Print anything as one line of JSON."""
    print(msgspec.json.encode(value).decode())


def show_table(rows: Sequence[Mapping[str, object]], *, as_json: bool) -> None:
    """Print the facts of several things that have the same ones: a row each.

    On a terminal a row is a line, and what does not fit is cut off; a pipe gets all of it.
    """
    if as_json:
        show_json(rows)
    elif sys.stdout.isatty():
        Console().print(_table(rows))
    else:
        for line in [list(rows[0]), *([_plain(value) for value in row.values()] for row in rows)] if rows else []:
            print("\t".join(" ".join(cell.split()) for cell in line))


def _table(rows: Sequence[Mapping[str, object]]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    columns = []
    for name in rows[0] if rows else []:
        values = [row[name] for row in rows]
        numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
        numeric = bool(numbers) and len(numbers) + values.count(None) == len(values)
        table.add_column(Text(name), justify="right" if numeric else "left", no_wrap=numeric)
        columns.append(
            [_cell(figure(value, numbers) if isinstance(value, int | float) and numeric else value) for value in values]
        )
    for cells in zip(*columns, strict=True):
        table.add_row(*cells)
    return table


def _cell(value: object) -> Text:
    cell = value.copy() if isinstance(value, Text) else Text(_plain(value))
    cell.no_wrap, cell.overflow = True, "ellipsis"
    return cell


def figure(value: float | None, others: Sequence[float | None] = ()) -> str:
    """A number for people, with as many decimals as it and the others in its column deserve."""
    if value is None:
        return "-"
    numbers = [number for number in (value, *others) if number is not None]
    if all(isinstance(number, int) for number in numbers):
        return f"{value:,}"
    largest = max(abs(number) for number in numbers)
    decimals = 0 if largest >= 1000 else 1 if largest >= 100 else 2 if largest >= 1 or not largest else 4
    return f"{value:,.{decimals}f}"


def _plain(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return str(round(value, 6))
    return str(value)


def say(sentence: str) -> None:
    """Tell the person something that is not data."""
    print(sentence, file=sys.stderr)


def show_lines(lines: Sequence[str | Text]) -> None:
    """Print lines between tables."""
    if sys.stdout.isatty():
        console = Console()
        for line in lines:
            console.print(Text(line) if isinstance(line, str) else line)
    else:
        for line in lines:
            print(line)
