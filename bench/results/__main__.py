"""Run every experiment that has not been run, analyse all runs with Spark, and write docs/results.md with its plots."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from bench.results import page, pictures
from bench.results.evidence import Evidence
from stafette.lab.experiment import experiment_file
from stafette.report import result_files
from stafette.report.figures import run_facts
from stafette.runs import records
from stafette.runs.layout import RUN_FILE, SERIES_FILE
from stafette.runs.records import RunRecord

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "experiments").glob("*.toml"))
PROFILE = "quick"


def main() -> None:
    asked = argparse.ArgumentParser(prog="python -m bench.results", description=__doc__)
    asked.add_argument(
        "folder", type=Path, nargs="?", default=ROOT / ".results", help="keeps the runs; remove it to measure anew"
    )
    folder = asked.parse_args().folder
    runs, analysis = folder / "runs", folder / "analysis"
    for file in FILES:
        if not _done(runs, file.stem):
            _stafette("lab", "run", str(file), "--profile", PROFILE, "--runs", str(runs))
    _stafette("analyze", str(runs), "--out", str(analysis))
    _write(analysis)


def _done(runs: Path, name: str) -> bool:
    return any(
        records.read(path, records.SeriesRecord).state == "done" for path in runs.glob(f"{name}-[0-9]*/{SERIES_FILE}")
    )


def _stafette(*arguments: str) -> None:
    """A run that cannot be trusted, or misses a threshold, ends with 1 or 99: the page says so, and we go on."""
    done = subprocess.run([sys.executable, "-m", "stafette", *arguments], stdout=subprocess.DEVNULL, check=False)
    if done.returncode not in (0, 1, 99):
        sys.exit(done.returncode)


def _write(analysis: Path) -> None:
    found, facts = result_files.load(analysis), result_files.load_facts(analysis)
    told = [run for run in run_facts(found, facts) if run.more["state"] == "done"]
    experiments = {file.stem: experiment_file.read(file, PROFILE) for file in FILES}
    evidence: dict[str, Evidence] = {}
    for name, one in experiments.items():
        mine = [run for run in told if run.experiment == name]
        evidence[name] = Evidence(name, one.design.kind, mine, found, evidence)
    results = page.in_order([page.result(one, evidence[name]) for name, one in experiments.items()])
    pictures.draw(page.drawings(results), ROOT / "docs" / page.IMAGES)
    record = records.read(Path(told[0].more["folder"]) / RUN_FILE, RunRecord)
    place = ROOT / "docs" / "results.md"
    place.write_text(page.page(results, record, facts["rows"]), encoding="utf-8")
    print(place)


main()
