"""Makes a series for `stafette lab run`, and says how it went by table and exit code."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
from pathlib import Path

import typer

from stafette.cli import lab_runs
from stafette.cli.analyze import reported
from stafette.cli.exits import ERROR, INTERRUPTED, THRESHOLD
from stafette.cli.lab_progress import Follower
from stafette.cli.output import say, show_json, show_table
from stafette.lab.experiment import experiment_file
from stafette.lab.running import runner
from stafette.lab.series import archive, series_folder
from stafette.lab.series import run_views as lab_views
from stafette.lab.series.series_folder import Series

BREAKING_OFF = (signal.SIGINT, signal.SIGTERM)


def make(
    file: Path, *, profile: str | None, runs: Path, new: bool, report: bool, as_json: bool, again: list[str]
) -> None:
    """Begin or continue a series, see it through, and show its runs; `again` is how to continue it."""
    chosen = series_folder.begin(runs, experiment_file.read(file, profile), file=file, profile=profile, new=new)
    planned = chosen.record.runs
    if archive.is_running(chosen):
        say(f"series {chosen.name} has a runner, or had one until now; waiting for its end")
    elif any(run.folder for run in planned):
        done = sum(run.state == "done" for run in planned)
        say(f"continues {chosen.name}: {done} of {len(planned)} runs are done")
    else:
        say(f"series {chosen.name}: {len(planned)} run{'s' * (len(planned) != 1)}, in {chosen.folder}")
    try:
        with Follower(chosen) as follower:
            asyncio.run(_made(chosen, follower))
    except (asyncio.CancelledError, KeyboardInterrupt):
        say(f"broken off; `{shlex.join(again)}` goes on with what is missing")
        raise typer.Exit(INTERRUPTED) from None
    _show(chosen, report=reported(chosen.folder) if report else None, as_json=as_json)


async def _made(chosen: Series, follower: Follower) -> None:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    asked = 0

    def break_off() -> None:
        nonlocal asked
        asked += 1
        if asked == 1:
            follower.broken_off()
            task.cancel()
            return
        # Our end is the agents' sign to end everything; the usual way out would wait for them again.
        follower.stop()
        say("broken off at once; what still runs ends by itself in a moment")
        os._exit(INTERRUPTED)

    def report(progress: runner.Progress) -> None:
        if asked and progress.phase == "prepare":  # an error while one run was ended must not let the next one begin
            raise asyncio.CancelledError
        follower.report(progress)

    for number in BREAKING_OFF:
        loop.add_signal_handler(number, break_off)
    await runner.run_series(chosen, report)


def _show(chosen: Series, *, report: Path | None, as_json: bool) -> None:
    views = lab_views.views(chosen)
    if as_json:
        told = {"series": chosen.name, "folder": str(chosen.folder), "state": chosen.record.state, "runs": views}
        show_json(told | ({"report": str(report)} if report else {}))
    else:
        show_table(lab_runs.rows(views), as_json=False)
        if report:
            print(report)
    for view in views:
        if view.problem is not None:
            say(f"stafette: run {view.run} {'failed' if view.state != 'done' else 'is not valid'}: {view.problem}")
        for missed in lab_runs.missed(view):
            say(f"stafette: run {view.run} missed a threshold: {missed}")
    if any(view.problem is not None for view in views):
        raise typer.Exit(ERROR)
    if any(view.missed for view in views):
        raise typer.Exit(THRESHOLD)
