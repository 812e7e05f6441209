"""``report.html``: one file that needs no network, with the verdict first.

Tables and facts go in, a page comes out; everything from the data is escaped on its way. Plotly's script is part of the
file, once, and a policy in its head forbids the page to ask anyone for anything.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from stafette.report import figures, method, result_files
from stafette.report.figures.table_rows import Tables
from stafette.report.headline import headline, key_figures, rejected
from stafette.report.sections import Drawing, drawn_runs, sections
from stafette.runs.layout import REPORT_FILE, RUN_FILE

FROM_RUN = (
    "seed", "machines", "thresholds", "checks", "database", "stafette", "revision", "python", "settings", "started_at",
)  # fmt: skip
"""What ``run.json`` tells and the facts may not."""


def write(out: Path) -> Path:
    """Write the report of an analysis into its folder."""
    report = out / REPORT_FILE
    unfinished = report.with_name(f"{REPORT_FILE}.tmp")
    unfinished.write_text(render(*load(out)), encoding="utf-8")
    unfinished.rename(report)
    return report


def load(out: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """All that a report is made from: the result tables, and the facts with what the runs' own records say besides."""
    facts = result_files.load_facts(out)
    facts["runs"] = [_filled_in(entry) for entry in facts.get("runs") or []]
    return result_files.load(out), facts


def render(result: Tables, facts: Mapping[str, Any]) -> str:
    """The page."""
    runs = figures.run_facts(result, facts)
    parts = sections(result, runs, facts.get("notes") or ())
    numbers = iter(range(1, 1_000_000))
    bodies = [(part, [_Placed(f"figure-{next(numbers)}", drawing) for drawing in part.drawings]) for part in parts]
    key, intervals = key_figures(runs, result)
    experiments = list(dict.fromkeys(run.experiment for run in runs if run.experiment))
    page = _environment().get_template("report.html.jinja")
    return page.render(
        title=", ".join(experiments) or "Analysis",
        verdict=headline(runs, result, facts),
        key=key,
        intervals=intervals,
        sections=bodies,
        runs=[f"{run.experiment}: {run.title}" if len(experiments) > 1 else run.title for run in drawn_runs(runs)],
        method=method.sentences(result, runs, facts),
        method_grids=method.grids(runs, facts),
        rejected=rejected(result, facts),
        rejects=method.rejects(result),
        style=_asset("report.css"),
        script=_asset("report.js"),
        plotly=Markup(get_plotlyjs()),  # noqa: S704 - the package's own script
        dark=_json(json.dumps(figures.DARK)),
    )


@dataclass(frozen=True)
class _Placed:
    """A figure with its place on the page."""

    id: str
    drawing: Drawing

    @property
    def json(self) -> Markup:
        return _json(self.drawing.figure.to_json())

    @property
    def height(self) -> int:
        return int(self.drawing.figure.layout.height)


def _filled_in(entry: dict[str, Any]) -> dict[str, Any]:
    """A run's facts, with what its own record says besides."""
    folder = entry.get("folder")
    record = Path(folder) / RUN_FILE if folder else None
    if record is None or not record.is_file():
        return entry
    try:
        told = json.loads(record.read_bytes())
    except (OSError, ValueError):
        return entry  # the figures do not depend on it
    return {
        **{key: told[key] for key in FROM_RUN if told.get(key)},
        **{k: v for k, v in entry.items() if v not in (None, {}, [])},
    }


def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("stafette.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _asset(name: str) -> Markup:
    """A file of ours that goes into the page as it is."""
    return Markup((resources.files("stafette.report") / "templates" / name).read_text("utf-8"))  # noqa: S704


def _json(text: str) -> Markup:
    """JSON inside a script element: nothing in it can end the element or begin a comment."""
    safe = text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    return Markup(safe.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))  # noqa: S704
