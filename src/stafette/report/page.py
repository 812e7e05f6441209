"""``report.html``: one file that needs no network, with the verdict first.

Everything from the data is escaped. Plotly's script is part of the file, once, and a content security policy forbids
the page to load anything.
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

from stafette.files import write_atomically
from stafette.report import figures, method, result_files
from stafette.report.figures.table_rows import Tables
from stafette.report.headline import count_rejects, headline, key_metrics
from stafette.report.sections import Drawing, drawn_runs, sections
from stafette.runs.layout import REPORT_FILE, RUN_FILE

FROM_RUN = (
    "seed", "machines", "thresholds", "checks", "database", "stafette", "revision", "python", "settings", "started_at",
)  # fmt: skip
"""Keys of ``run.json`` that ``facts.json`` may lack."""


def write(out: Path) -> Path:
    """Write the report of an analysis into its folder."""
    report = out / REPORT_FILE
    write_atomically(report, render(*load(out)))
    return report


def load(out: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a report is made from: the result tables, and the metadata completed from the runs' own records."""
    metadata = result_files.load_metadata(out)
    metadata["runs"] = [_with_run_record(entry) for entry in metadata.get("runs") or []]
    return result_files.load(out), metadata


def render(tables: Tables, metadata: Mapping[str, Any]) -> str:
    """The page."""
    runs = figures.run_metadata(tables, metadata)
    level = (metadata.get("options") or {}).get("level")
    all_sections = sections(tables, runs, metadata.get("notes") or (), level)
    figure_numbers = iter(range(1, 1_000_000))
    bodies = [
        (section, [_NumberedFigure(f"figure-{next(figure_numbers)}", drawing) for drawing in section.drawings])
        for section in all_sections
    ]
    key_table, intervals = key_metrics(runs, tables, level)
    experiments = list(dict.fromkeys(run.experiment for run in runs if run.experiment))
    page = _environment().get_template("report.html.jinja")
    return page.render(
        title=", ".join(experiments) or "Analysis",
        verdict=headline(runs, tables, metadata),
        key_table=key_table,
        intervals=intervals,
        sections=bodies,
        runs=[f"{run.experiment}: {run.title}" if len(experiments) > 1 else run.title for run in drawn_runs(runs)],
        method=method.describe_method(tables, runs, metadata),
        method_grids=method.grids(runs, metadata),
        reject_count=count_rejects(tables, metadata),
        reject_reasons=method.reject_reasons(tables),
        rejects=method.rejects(tables),
        style=_asset("report.css"),
        script=_asset("report.js"),
        plotly=Markup(get_plotlyjs()),  # noqa: S704 - the package's own script
        dark=_json(json.dumps(figures.DARK)),
    )


@dataclass(frozen=True)
class _NumberedFigure:
    """A figure with its id on the page."""

    id: str
    drawing: Drawing

    @property
    def json(self) -> Markup:
        return _json(self.drawing.figure.to_json())

    @property
    def height(self) -> int:
        return int(self.drawing.figure.layout.height)


def _with_run_record(entry: dict[str, Any]) -> dict[str, Any]:
    """A run's metadata, completed from its own record."""
    folder = entry.get("folder")
    record_file = Path(folder) / RUN_FILE if folder else None
    if record_file is None or not record_file.is_file():
        return entry
    try:
        run_record = json.loads(record_file.read_bytes())
    except (OSError, ValueError):
        return entry  # the figures do not depend on it
    return {
        **{key: run_record[key] for key in FROM_RUN if run_record.get(key)},
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
    """A file from templates/ that goes into the page unchanged."""
    return Markup((resources.files("stafette.report") / "templates" / name).read_text("utf-8"))  # noqa: S704


def _json(text: str) -> Markup:
    """JSON inside a script element: nothing in it can end the element or begin a comment."""
    safe = text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    return Markup(safe.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))  # noqa: S704
