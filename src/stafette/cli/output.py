"""How commands print: tables on a terminal, lines with tabs in a pipe, JSON with --json."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from stafette.cli.current_session import current_session

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def show_record(record: Mapping[str, object], *, as_json: bool) -> None:
    """Print one object, a line per field."""
    if as_json:
        show_json(record)
    elif sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
        for name, value in record.items():
            table.add_row(Text(name, style="bold"), Text(escape_controls(_format_cell(value))))
        Console().print(table)
    else:
        for name, value in record.items():
            print(f"{name}\t{_format_cell(value)}")


def show_json(value: object) -> None:
    """Print anything as one line of JSON."""
    print(msgspec.json.encode(value).decode())


def show_table(rows: Sequence[Mapping[str, object]], *, as_json: bool) -> None:
    """Print objects with the same fields, a row each.

    On a terminal a row is one line and is cut off at the edge; a pipe gets the full text.
    """
    if as_json:
        show_json(rows)
    elif sys.stdout.isatty():
        from rich.console import Console

        Console().print(_table(rows))
    else:
        for line in [list(rows[0]), *([_format_cell(value) for value in row.values()] for row in rows)] if rows else []:
            print("\t".join(" ".join(cell.split()) for cell in line))


def _table(rows: Sequence[Mapping[str, object]]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    columns = []
    for name in rows[0] if rows else []:
        values = [row[name] for row in rows]
        numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
        numeric = bool(numbers) and len(numbers) + values.count(None) == len(values)
        table.add_column(Text(name), justify="right" if numeric else "left", no_wrap=numeric)
        columns.append(
            [
                _cell(format_number(value, numbers) if isinstance(value, int | float) and numeric else value)
                for value in values
            ]
        )
    for cells in zip(*columns, strict=True):
        table.add_row(*cells)
    return table


def _cell(value: object) -> Text:
    from rich.text import Text

    cell = value.copy() if isinstance(value, Text) else Text(escape_controls(_format_cell(value)))
    cell.no_wrap, cell.overflow = True, "ellipsis"
    return cell


def format_number(value: float | None, column: Sequence[float | None] = ()) -> str:
    """A number for people; the largest one of its column decides how many decimals it gets."""
    if value is None:
        return "-"
    numbers = [number for number in (value, *column) if number is not None]
    if all(isinstance(number, int) for number in numbers):
        return f"{value:,}"
    largest = max(abs(number) for number in numbers)
    decimals = 0 if largest >= 1000 else 1 if largest >= 100 else 2 if largest >= 1 or not largest else 4
    return f"{value:,.{decimals}f}"


def _format_cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return str(round(value, 6))
    return str(value)


# Control characters, line separators, and those that change the direction of text.
_HARMFUL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def escape_controls(text: str, keep: str = "") -> str:
    """Text for a terminal: characters that could move the cursor, change the title or reorder lines are escaped."""
    return _HARMFUL.sub(lambda match: match[0] if match[0] in keep else ascii(match[0])[1:-1], text)


def say(text: str) -> None:
    """Print a message that is not data to standard error."""
    print(text, file=sys.stderr)


def report(detail: str, result: str | None = None) -> None:
    """Report a change: the shell prints the detail, the command line the result, or the detail if there is none."""
    if session := current_session():
        session.report(detail)
    elif result is None:
        say(detail)
    else:
        print(result)


def show_lines(lines: Sequence[str | Text]) -> None:
    """Print lines between tables."""
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.text import Text

        console = Console()
        for line in lines:
            console.print(Text(line) if isinstance(line, str) else line)
    else:
        for line in lines:
            print(line)
