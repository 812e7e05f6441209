"""`stafette lab compare`: prints two series side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from stafette.cli.output import format_number, say, show_json, show_lines, show_table
from stafette.lab.series import comparison
from stafette.lab.series.differences import Difference
from stafette.lab.series.series_folder import Series
from stafette.statistics.intervals import LEVEL


def show_comparison(a: Series, b: Series, *, as_json: bool) -> None:
    """Print how the metrics of B differ from those of A, and which settings differ."""
    result = comparison.compare_series(a, b)
    differences, settings = result.differences, result.settings
    for side in {a.name: result.a, b.name: result.b}.values():
        if side.invalid:
            name = side.series.name
            say(f"{side.invalid} of {len(side.runs)} runs of {name} are not valid; `stafette lab show {name}` says why")
    if as_json:
        changes = [{"setting": path, "a": value_a, "b": value_b} for path, value_a, value_b in settings]
        header = {"a": a.name, "b": b.name, "level": LEVEL}
        show_json(header | {"differences": differences, "settings": changes})
        return
    show_lines([f"A  {a.name}, {len(result.a.runs)} runs", f"B  {b.name}, {len(result.b.runs)} runs", ""])
    show_table(_table_rows(differences), as_json=False)
    show_lines([""])
    if settings:
        rows = [{"setting": path, "A": _format_value(a), "B": _format_value(b)} for path, a, b in settings]
        show_table(rows, as_json=False)
    else:
        show_lines(["all settings are the same"])


def _table_rows(differences: Sequence[Difference]) -> list[dict[str, object]]:
    several = len({difference.label for difference in differences}) > 1
    texts = [_texts(difference) for difference in differences]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    rows: list[dict[str, object]] = []
    for difference, cells in zip(differences, texts, strict=True):
        mean_a, mean_b, change = (cell.rjust(width) for cell, width in zip(cells[:3], widths[:3], strict=True))
        rows.append(
            {
                **({"point": difference.label} if several else {}),
                "metric": difference.metric,
                "A": mean_a,
                "B": mean_b,
                "B over A": change,
                f"{LEVEL:.0%} interval": cells[3],
                "verdict": difference.verdict,
            }
        )
    return rows


def _texts(difference: Difference) -> tuple[str, str, str, str]:
    a, b, change = difference.mean_a, difference.mean_b, difference.change
    means = format_number(a, [b]), format_number(b, [a])
    if change is None:
        return *means, "-", "-"
    pattern = "{:+.4f}" if difference.kind == "difference" else "× {:.3f}"
    bounds = "-"
    if change.low is not None and change.high is not None:
        bounds = f"{pattern.format(change.low)} … {pattern.format(change.high)}"
    return *means, pattern.format(change.value), bounds


def _format_value(value: Any) -> str | None:
    return value if isinstance(value, str | None) else msgspec.json.encode(value).decode()
