"""Analyses of the job queue, one after the other: Spark starts once, and again when it has to."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from stafette.errors import StafetteError
from stafette.lab.jobs.warm_analysis import WarmAnalysis
from stafette.pipeline import input_size
from stafette.runs.layout import ANALYSIS, REPORT_FILE
from tests.support.synthetic_runs import make_run, requests

pytestmark = pytest.mark.slow


@pytest.fixture
def runs(tmp_path: Path, no_java: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two series of a run each."""
    for name, value in no_java.items():
        monkeypatch.setenv(name, value)
    for series in ("made-0001", "made-0002"):
        run = f"{series}/001-single-r1"
        make_run(tmp_path / series / "runs" / "001-single-r1", requests(500, run=run))
    return tmp_path


def children() -> set[psutil.Process]:
    return {
        child
        for child in psutil.Process().children()
        if child.status() != psutil.STATUS_ZOMBIE and "stafette.lab.jobs.analysis_process" in child.cmdline()
    }


async def analysed(analysis: WarmAnalysis, series: Path) -> list[str]:
    """The lines that an analysis says."""
    lines: list[str] = []
    end = await analysis.analyse(series, lambda event: lines.append(event["line"]))
    assert end == {"kind": "end", "state": "done", "sentence": f"{series.name} is analysed"}
    assert (series / ANALYSIS / REPORT_FILE).is_file()
    return lines


async def test_the_second_analysis_takes_the_spark_of_the_first(runs: Path) -> None:
    analysis = WarmAnalysis(runs)
    assert "Spark starts" in await analysed(analysis, runs / "made-0001")
    first = children()
    assert len(first) == 1
    assert "Spark starts" not in await analysed(analysis, runs / "made-0002")
    assert children() == first
    await analysis.close()
    assert not children()


async def test_a_large_series_does_not_take_a_spark_that_started_quickly(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    analysis = WarmAnalysis(runs)
    await analysed(analysis, runs / "made-0001")
    monkeypatch.setattr(input_size, "SMALL_BYTES", 0)
    assert "Spark starts" in await analysed(analysis, runs / "made-0002")
    monkeypatch.undo()
    assert "Spark starts" not in await analysed(
        analysis, runs / "made-0001"
    )  # the one for large series serves small ones
    await analysis.close()


async def test_a_spark_without_work_ends(runs: Path) -> None:
    analysis = WarmAnalysis(runs, idle_seconds=0.0)
    await analysed(analysis, runs / "made-0001")
    [child] = children() or [None]
    if child is not None:
        await asyncio.to_thread(child.wait)
    assert "Spark starts" in await analysed(analysis, runs / "made-0001")
    await analysis.close()


async def test_an_analysis_that_is_interrupted_or_fails_leaves_nothing_behind(runs: Path) -> None:
    analysis = WarmAnalysis(runs)

    def interrupt(event: Mapping[str, Any]) -> None:
        if event["line"] == "read":
            analysis.interrupt()

    with pytest.raises(StafetteError, match="the process of the job ended: exit code 130"):
        await analysis.analyse(runs / "made-0001", interrupt)
    assert not children()
    end = await analysis.analyse(runs / "nowhere", lambda event: None)
    assert end["state"] == "failed"
    assert "nowhere" in end["sentence"]
    assert not children()
    await analysed(analysis, runs / "made-0002")
    await analysis.close()
