"""The runs of a series as rows of a table."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from stafette.cli.output import format_number
from stafette.lab.series.run_views import RunView


def missed_thresholds(run: RunView) -> list[str]:
    """Texts of the thresholds that a run missed."""
    return [f"{result.metric} {result.threshold} (was {format_number(result.value)})" for result in run.missed]


def table_rows(runs: Sequence[RunView]) -> list[dict[str, object]]:
    """A row for each run."""
    thresholds = any(run.thresholds for run in runs)
    return [
        {
            "run": run.run,
            "point": run.label,
            "repetition": run.repetition,
            "state": run.state,
            "throughput": run.metrics["throughput"],
            "mean ms": run.metrics["mean_ms"],
            "p99 ms": run.metrics["p99_ms"],
            "errors": None if run.metrics["errors"] is None else int(run.metrics["errors"]),
            **({"thresholds": _thresholds(run)} if thresholds else {}),
            "verdict": _verdict(run),
        }
        for run in runs
    ]


def _thresholds(run: RunView) -> Text | None:
    if not run.thresholds:
        return None
    return Text("; ".join(missed_thresholds(run)), style="red") if run.missed else Text("met", style="green")


def _verdict(run: RunView) -> Text | None:
    if run.problem is not None:
        return Text(run.problem, style="red")
    return Text("ok", style="green") if run.valid else None
