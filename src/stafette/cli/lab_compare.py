"""`stafette lab compare`: two series side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from stafette.cli import lab_runs
from stafette.cli.lab_runs import RunView
from stafette.cli.output import figure, say, show_json, show_lines, show_table
from stafette.errors import InvalidRequest
from stafette.lab.compare import Difference, RunFigures, compare, differing_settings
from stafette.lab.series import Series
from stafette.statistics.intervals import LEVEL


def compared(a: Series, b: Series, *, as_json: bool) -> None:
    """What changed from A to B, and what is set otherwise."""
    runs_a, runs_b = _done(a), _done(b)
    differences = compare(_figures(runs_a), _figures(runs_b)) or _of_single_points(a, b, runs_a, runs_b)
    settings = differing_settings(a.record.settings, b.record.settings)
    for one, runs in {a.name: (a, runs_a), b.name: (b, runs_b)}.values():
        if invalid := sum(not run.valid for run in runs):
            say(f"{invalid} of {len(runs)} runs of {one.name} are not valid; `stafette lab show {one.name}` says why")
    if as_json:
        changed = [{"setting": path, "a": theirs, "b": ours} for path, theirs, ours in settings]
        named = {"a": a.name, "b": b.name, "level": LEVEL}
        show_json(named | {"differences": differences, "settings": changed})
        return
    show_lines([f"A  {a.name}, {len(runs_a)} runs", f"B  {b.name}, {len(runs_b)} runs", ""])
    show_table(_rows(differences), as_json=False)
    show_lines([""])
    if settings:
        rows = [{"setting": path, "A": _shown(theirs), "B": _shown(ours)} for path, theirs, ours in settings]
        show_table(rows, as_json=False)
    else:
        show_lines(["all settings are the same"])


def _done(one: Series) -> list[RunView]:
    runs = [view for view in lab_runs.views(one) if view.state == "done"]
    if not runs:
        raise InvalidRequest(f"no run of {one.name} is done; let it go on with `stafette lab run`")
    return runs


def _figures(runs: Sequence[RunView]) -> list[RunFigures]:
    return [RunFigures(run.levels, run.metrics) for run in runs]


def _of_single_points(a: Series, b: Series, runs_a: list[RunView], runs_b: list[RunView]) -> list[Difference]:
    """Two that have nothing in common but that there is only one thing to compare."""
    labels = [sorted({run.label for run in runs}) for runs in (runs_a, runs_b)]
    if any(len(found) > 1 for found in labels):
        raise InvalidRequest(
            f"{a.name} ({'; '.join(labels[0])}) and {b.name} ({'; '.join(labels[1])}) have no point in common"
        )
    bare_a, bare_b = ([RunFigures({}, run.metrics) for run in runs] for runs in (runs_a, runs_b))
    return compare(bare_a, bare_b)


def _rows(differences: Sequence[Difference]) -> list[dict[str, object]]:
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
    means = figure(a, [b]), figure(b, [a])
    if change is None:
        return *means, "-", "-"
    pattern = "{:+.4f}" if difference.kind == "difference" else "× {:.3f}"
    bounds = "-"
    if change.low is not None and change.high is not None:
        bounds = f"{pattern.format(change.low)} … {pattern.format(change.high)}"
    return *means, pattern.format(change.value), bounds


def _shown(value: Any) -> str | None:
    return value if isinstance(value, str | None) else msgspec.json.encode(value).decode()
