"""docs/results.md has a row for every experiment."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.results.page import judge
from bench.results.reports import REPORTS
from stafette.lab.experiment import experiment_file
from tests.support.results_evidence import evidence

ROOT = Path(__file__).parents[3]
FILES = sorted((ROOT / "experiments").glob("*.toml"))
PAGE = ROOT / "docs" / "results.md"


def test_every_experiment_is_held_against_its_report() -> None:
    assert set(REPORTS) == {path.stem for path in FILES}
    assert all(REPORTS.values())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_page_has_a_row_and_a_section_for_every_experiment(path: Path) -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    quick = experiment_file.read(path, "quick")
    rows = [line for line in lines if line.startswith(f"| [{path.stem}](#{path.stem}) | {quick.question} |")]
    assert len(rows) == 1
    assert f"### {path.stem}" in lines
    pictures = [line for line in lines if line.startswith(f"![{path.stem}: ")]
    assert pictures
    for picture in pictures:
        assert (PAGE.parent / picture.partition("](")[2].rstrip(")")).is_file()


def test_an_experiment_without_a_run_says_so() -> None:
    quick = experiment_file.read(FILES[0], "quick")
    result = judge(quick, evidence())
    assert result.shape == "not measured"
