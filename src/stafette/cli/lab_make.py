"""Runs a series for `stafette lab run`, and reports it as a table and an exit code."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
from pathlib import Path

import typer

from stafette import settings
from stafette.cli import analyze, lab_runs, privileges
from stafette.cli.exits import ERROR, INTERRUPTED, THRESHOLD
from stafette.cli.lab_progress import Follower
from stafette.cli.output import say, show_json, show_table
from stafette.lab.experiment import experiment_file
from stafette.lab.running import runner
from stafette.lab.series import archive, series_folder
from stafette.lab.series import run_views as lab_views
from stafette.lab.series.series_folder import Series

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def make(
    file: Path, *, profile: str | None, runs: Path, new: bool, report: bool, as_json: bool, resume_command: list[str]
) -> None:
    """Start or continue a series, wait for its end, and show its runs; `resume_command` would continue it."""
    privileges.make_runs_folder(runs, settings.load().data)
    series = series_folder.begin(runs, experiment_file.read(file, profile), file=file, profile=profile, new=new)
    experiment = series.experiment
    if experiment is None or experiment.hosts is None:  # else root's keys lead to the other machines
        identity = privileges.drop_in(series.folder, settings.load().data)
        if identity.user is None and identity.message:
            say(identity.message)
    runs_of_series = series.record.runs
    if archive.is_running(series):
        say(f"series {series.name} is being run by another process; waiting for its end")
    elif any(run.folder for run in runs_of_series):
        done_count = sum(run.state == "done" for run in runs_of_series)
        say(f"continuing {series.name}: {done_count} of {len(runs_of_series)} runs are done")
    else:
        plural = "" if len(runs_of_series) == 1 else "s"
        say(f"series {series.name}: {len(runs_of_series)} run{plural}, in {series.folder}")
    try:
        with Follower(series) as follower:
            asyncio.run(_run_series(series, follower))
    except (asyncio.CancelledError, KeyboardInterrupt):
        say(f"interrupted; `{shlex.join(resume_command)}` continues with the missing runs")
        raise typer.Exit(INTERRUPTED) from None
    _show(series, report=analyze.report(series.folder) if report else None, as_json=as_json)


async def _run_series(series: Series, follower: Follower) -> None:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    signal_count = 0

    def interrupt() -> None:
        nonlocal signal_count
        signal_count += 1
        if signal_count == 1:
            follower.show_interrupt()
            task.cancel()
            return
        # The agents stop everything when this process ends; a normal exit would wait for them again.
        follower.stop()
        say("interrupted at once; processes that still run will end by themselves")
        os._exit(INTERRUPTED)

    def report(progress: runner.Progress) -> None:
        if signal_count and progress.phase == "prepare":  # an error while a run is stopped must not start the next run
            raise asyncio.CancelledError
        follower.report(progress)

    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, interrupt)
    await runner.run_series(series, report)


def _show(series: Series, *, report: Path | None, as_json: bool) -> None:
    views = lab_views.views(series)
    if as_json:
        fields = {"series": series.name, "folder": str(series.folder), "state": series.record.state, "runs": views}
        show_json(fields | ({"report": str(report)} if report else {}))
    else:
        show_table(lab_runs.table_rows(views), as_json=False)
        if report:
            print(report)
    for view in views:
        if view.problem is not None:
            say(f"stafette: run {view.run} {'failed' if view.state != 'done' else 'is not valid'}: {view.problem}")
        for threshold in lab_runs.missed_thresholds(view):
            say(f"stafette: run {view.run} missed a threshold: {threshold}")
    if any(view.problem is not None for view in views):
        raise typer.Exit(ERROR)
    if any(view.missed for view in views):
        raise typer.Exit(THRESHOLD)
