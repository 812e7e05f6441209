"""`stafette factorial`: the effects of a 2^k or 2^k·r experiment from any tidy table, one row per run."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stafette.cli.output import Json, say, show_json, show_lines, show_table
from stafette.errors import InvalidRequest, StafetteError

if TYPE_CHECKING:
    from stafette.statistics.factorial import Analysis

SEPARATORS = (",", ";", "\t")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")

Table = list[tuple[int, list[str]]]
"""Each row with its number as in a spreadsheet: the header is row 1."""


def factorial(
    table: Annotated[
        Path, typer.Argument(metavar="TABLE.csv", help="One row per run, with a header; separated by , ; or tabs.")
    ],
    factors: Annotated[str, typer.Option("--factors", metavar="A,B,…", help="Columns with two levels each.")],
    response: Annotated[str, typer.Option("--response", metavar="COLUMN", help="Column with the measured value.")],
    level: Annotated[float, typer.Option("--level", help="Confidence level of the intervals.")] = 0.95,
    multiplicative: Annotated[
        bool, typer.Option("--multiplicative", help="Factors multiply: analyse the natural logarithm of the response.")
    ] = False,
    signs: Annotated[bool, typer.Option("--signs", help="Print the sign table, too.")] = False,
    as_json: Json = False,
) -> None:
    """Compute the effects of factors with two levels, their share of the variation, and intervals if runs repeat.

    Example: stafette factorial runs.csv --factors clients,size --response mean_ms
    """
    names = [name.strip() for name in next(csv.reader([factors], skipinitialspace=True), [])]
    analysis = _analyse(table, names, response.strip(), level, multiplicative)
    for note in analysis.notes:
        say(note)
    if as_json:
        show_json(_summary(analysis))
        return
    show_lines(_heading(analysis, response))
    show_table(_effects(analysis), as_json=False)
    if signs:
        show_lines([""])
        show_table(_signs(analysis, response), as_json=False)


def _analyse(path: Path, names: list[str], response: str, level: float, multiplicative: bool) -> Analysis:
    try:
        from stafette.statistics import factorial as statistics
        from stafette.statistics.levels import check_names
    except ImportError as error:
        raise StafetteError(f"the analysis needs {error.name}; install stafette[lab]") from error
    check_names(names)
    if response in names:
        raise InvalidRequest(f"column {response} is both factor and response; choose another response")
    header, rows, decimal_comma = _read(path, [*names, response])
    columns = {name: _cells(header, rows, name) for name in (*names, response)}
    if decimal_comma:
        columns = {name: _with_points(cells) for name, cells in columns.items()}
    return statistics.analyse(
        {name: columns[name] for name in names},
        [_number(response, row, cell) for (row, _), cell in zip(rows, columns[response], strict=True)],
        level=level,
        multiplicative=multiplicative,
        where=lambda index: f"row {rows[index][0]}",
    )


def _read(path: Path, requested: Sequence[str]) -> tuple[list[str], Table, bool]:
    """The header, the rows that are not blank, and whether numbers may be written with a comma."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InvalidRequest(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from error
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{path} is not UTF-8 text; save it as CSV in UTF-8") from error
    if not text.strip():
        raise InvalidRequest(f"{path} is empty; write a header and a row for each run")
    try:
        separator = _separator(text, requested)
        records = list(enumerate(csv.reader(io.StringIO(text), delimiter=separator), start=1))
    except csv.Error as error:
        raise InvalidRequest(f"{path} is not CSV: {error}") from error
    numbered_rows = [
        (number, [cell.strip() for cell in cells]) for number, cells in records if any(map(str.strip, cells))
    ]
    (_, header), *rows = numbered_rows
    _check_shape(path, header, rows, requested)
    return header, rows, separator != ","


def _separator(text: str, requested: Sequence[str]) -> str:
    """The separator that gives the most requested columns in the header, then the most columns."""

    def columns(separator: str) -> tuple[int, int]:
        header = [cell.strip() for cell in next(csv.reader(io.StringIO(text.lstrip()), delimiter=separator), [])]
        return len(set(requested) & set(header)), len(header)

    return max(SEPARATORS, key=columns)


def _check_shape(path: Path, header: list[str], rows: Table, requested: Sequence[str]) -> None:
    for name in requested:
        if name not in header:
            raise InvalidRequest(f"{path} has no column {name}; its columns are {', '.join(header)}")
        if header.count(name) > 1:
            raise InvalidRequest(f"{header.count(name)} columns are named {name} in row 1; give each its own name")
    if not rows:
        raise InvalidRequest(f"{path} has a header but no rows; add a row for each run")
    for number, cells in rows:
        if len(cells) != len(header):
            raise InvalidRequest(f"row {number} has {len(cells)} columns and the header {len(header)}; make them equal")


def _cells(header: list[str], rows: Table, name: str) -> list[str]:
    position = header.index(name)
    for number, cells in rows:
        if not cells[position]:
            raise InvalidRequest(f"column {name} is empty in row {number}; fill it in, or delete the row")
    return [cells[position] for _, cells in rows]


def _with_points(cells: list[str]) -> list[str]:
    """Replace decimal commas by points if all cells are such numbers; a column that has points stays as it is."""
    with_points = [cell.replace(",", ".", 1) for cell in cells]
    commas_only = not any("." in cell for cell in cells) and all(_NUMBER.fullmatch(cell) for cell in with_points)
    return with_points if commas_only else cells


def _number(column: str, row: int, cell: str) -> float:
    value = float(cell) if _NUMBER.fullmatch(cell) else math.nan
    if not math.isfinite(value):
        raise InvalidRequest(
            f"column {column} has {cell!r} in row {row}, which is not a number; correct it, or delete the row"
        )
    return value


def _summary(analysis: Analysis) -> dict[str, object]:
    """The object that `--json` prints."""
    bounds = {effect.name: (effect.low, effect.high) for effect in analysis.effects if effect.low is not None}
    shares = {effect.name: effect.share for effect in analysis.effects if effect.share is not None}
    return {
        "effects": {effect.name: effect.value for effect in analysis.effects},
        "variation": shares | {"error": analysis.error_share},
        "intervals": bounds,
    }


def _heading(analysis: Analysis, response: str) -> list[str]:
    counts = sorted({combination.repetitions for combination in analysis.combinations})
    count = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    subject = f"the logarithm of {response}" if analysis.multiplicative else response
    levels = [f"{factor.name}: {factor.low} is -1, {factor.high} is +1" for factor in analysis.factors]
    repetitions = "repetition" if counts == [1] else "repetitions"
    return [f"{subject}, 2^{len(analysis.factors)} combinations, {count} {repetitions} each", *levels, ""]


def _effects(analysis: Analysis) -> list[dict[str, object]]:
    mean, *effects = analysis.effects
    rows: list[dict[str, object]] = []
    for effect in [mean, *sorted(effects, key=lambda effect: -(effect.share or 0.0))]:
        row: dict[str, object] = {"effect": effect.name, "value": effect.value}
        if analysis.multiplicative:
            row["times"] = effect.ratio
        row["variation %"] = effect.share
        if effect.matters is not None:
            row |= {f"{analysis.level:.4g} low": effect.low, "high": effect.high}
            row["matters"] = "" if effect is mean else "yes" if effect.matters else "cannot tell"
        rows.append(row)
    error = dict.fromkeys(rows[0]) | {"effect": "error", "variation %": analysis.error_share}
    return [*rows, error | ({"matters": ""} if "matters" in error else {})]


def _signs(analysis: Analysis, response: str) -> list[dict[str, object]]:
    column = f"ln {response}" if analysis.multiplicative else response
    return [
        {effect.name: sign for effect, sign in zip(analysis.effects, combination.signs, strict=True)}
        | {"repetitions": combination.repetitions, f"mean {column}": combination.mean}
        for combination in analysis.combinations
    ]
