"""What is shown of runs and searches: tables for people, rows for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.table import Table

from bench.torture.checker import Findings, Flaw
from bench.torture.defects import Search
from bench.torture.runner import Run

SENTENCES = 3
"""Violations of each kind that are shown in words."""
MAIN: tuple[Flaw, ...] = ("lost", "duplicated", "invented")


def run_table(runs: Sequence[Run]) -> Table:
    """A row for each fault and use, and one for all."""
    table = Table(title="Messages by fault and use")
    for column in ("fault", "strikes", "use"):
        table.add_column(column, no_wrap=True)
    for column in (
        "silence",
        "answered",
        "in doubt",
        "not done",
        "came out",
        "reads in doubt",
        *MAIN,
        "other",
        "with client",
    ):
        table.add_column(column, justify="right")
    total: Counter[str] = Counter()
    for run in runs:
        if run.skipped:
            table.add_row(run.fault, "-", run.skipped)
            continue
        head = (run.fault, str(run.strikes))
        for use, findings in run.findings.items():
            row = _counts(findings)
            total.update(row)
            table.add_row(*head, use, f"{run.silences[use]:.1f} s", *(f"{number:,}" for number in row.values()))
            head = ("", "")
    if total:
        strikes = sum(run.strikes for run in runs)
        table.add_section()
        table.add_row("all", str(strikes), "", "", *(f"{number:,}" for number in total.values()))
    return table


def sentences(runs: Sequence[Run]) -> list[str]:
    """Some violations in words."""
    lines = []
    for run in runs:
        shown: Counter[tuple[str, str]] = Counter()
        for use, (flaw, sentence) in run.violations:
            shown[use, flaw] += 1
            if shown[use, flaw] <= SENTENCES:
                lines.append(f"{run.fault}, {use}: {flaw}: {sentence}")
    return lines


def run_row(run: Run) -> dict[str, Any]:
    """A run for programs."""
    return {
        "fault": run.fault,
        "skipped": run.skipped or None,
        "strikes": run.strikes,
        "seconds": round(run.seconds, 1),
        "longest_silence": {use: round(seconds, 2) for use, seconds in run.silences.items()},
        "uses": {use: _counts(findings) for use, findings in run.findings.items()},
        "violations": Counter(violation.flaw for _, violation in run.violations),
        "sentences": sentences([run]),
    }


def _counts(findings: Findings) -> dict[str, int]:
    flaws: Counter[Flaw] = Counter(violation.flaw for violation in findings.violations)
    return {
        "answered": findings.answered,
        "in_doubt": findings.in_doubt,
        "not_done": findings.not_done,
        "came_out": findings.came_out,
        "reads_in_doubt": findings.unanswered_reads,
        **{flaw: flaws[flaw] for flaw in MAIN},
        "other": sum(number for flaw, number in flaws.items() if flaw not in MAIN),
        "lost_with_client": findings.lost_with_client,
    }


def search_table(searches: Sequence[Search]) -> Table:
    """A row for each defect."""
    table = Table("planted defect", "use", "fault", "seen as", title=_score(searches))
    for search in searches:
        defect = search.defect
        table.add_row(defect.name, defect.use, defect.fault, ", ".join(search.flaws) or "[bold]not seen[/bold]")
    return table


def search_row(search: Search) -> dict[str, Any]:
    """A search for programs."""
    defect = search.defect
    return {"defect": defect.name, "use": defect.use, "fault": defect.fault, "seen_as": search.flaws}


def _score(searches: Sequence[Search]) -> str:
    return f"{sum(bool(search.flaws) for search in searches)} of {len(searches)} planted defects found"
