"""Run every experiment without a finished series, analyse all runs with Spark, and write docs/results.md with plots."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from bench.results import page, pictures
from bench.results.evidence import Evidence
from stafette.lab.experiment import experiment_file
from stafette.report import result_files
from stafette.report.figures import run_metadata
from stafette.runs import records
from stafette.runs.layout import RUN_FILE, SERIES_FILE
from stafette.runs.records import RunRecord

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "experiments").glob("*.toml"))
PROFILE = "quick"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.results", description=__doc__)
    parser.add_argument(
        "folder",
        type=Path,
        nargs="?",
        default=ROOT / ".results",
        help="folder of the runs; delete it to run all experiments again",
    )
    folder = parser.parse_args().folder
    runs, analysis = folder / "runs", folder / "analysis"
    for file in FILES:
        if not _is_finished(runs, file.stem):
            _stafette("lab", "run", str(file), "--profile", PROFILE, "--runs", str(runs))
    _stafette("analyze", str(runs), "--out", str(analysis))
    _write(analysis)


def _is_finished(runs: Path, name: str) -> bool:
    return any(
        records.read(path, records.SeriesRecord).state == "done" for path in runs.glob(f"{name}-[0-9]*/{SERIES_FILE}")
    )


def _stafette(*arguments: str) -> None:
    """Run the command; 1 and 99, for runs that are not valid or miss a threshold, are fine: the page says so."""
    completed = subprocess.run([sys.executable, "-m", "stafette", *arguments], stdout=subprocess.DEVNULL, check=False)
    if completed.returncode not in (0, 1, 99):
        sys.exit(completed.returncode)


def _write(analysis: Path) -> None:
    tables, metadata = result_files.load(analysis), result_files.load_metadata(analysis)
    runs = [run for run in run_metadata(tables, metadata) if run.details["state"] == "done"]
    experiments = {file.stem: experiment_file.read(file, PROFILE) for file in FILES}
    evidence: dict[str, Evidence] = {}
    for name, experiment in experiments.items():
        own_runs = [run for run in runs if run.experiment == name]
        evidence[name] = Evidence(name, experiment.design.kind, own_runs, tables, evidence)
    results = page.sort_by_report([page.judge(experiment, evidence[name]) for name, experiment in experiments.items()])
    pictures.draw(page.drawings(results), ROOT / "docs" / page.IMAGES)
    record = records.read(Path(runs[0].details["folder"]) / RUN_FILE, RunRecord)
    path = ROOT / "docs" / "results.md"
    path.write_text(page.page(results, record, metadata["rows"]), encoding="utf-8")
    print(path)


main()
