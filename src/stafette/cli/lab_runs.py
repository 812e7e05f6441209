"""The runs of a series as commands show them."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from stafette.cli.output import figure
from stafette.lab.series.run_views import RunView


def missed(run: RunView) -> list[str]:
    """The thresholds that a run did not reach, in words."""
    return [f"{result.metric} {result.threshold} (was {figure(result.value)})" for result in run.missed]


def rows(runs: Sequence[RunView]) -> list[dict[str, object]]:
    """The table of runs."""
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
    return Text("; ".join(missed(run)), style="red") if run.missed else Text("met", style="green")


def _verdict(run: RunView) -> Text | None:
    if run.problem is not None:
        return Text(run.problem, style="red")
    return Text("ok", style="green") if run.valid else None
