"""The progress of a running series: a live display on a terminal, elsewhere a line for each finished run."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from stafette.cli.output import format_number, say
from stafette.lab.running.runner import Progress
from stafette.lab.series.run_views import RunView, view
from stafette.lab.series.series_folder import Series

UNDER_LOAD = ("warm-up", "measure", "cool-down")
BAR_WIDTH = 32
REFRESHES_PER_SECOND = 4


class Follower:
    """Shows the progress of a series on standard error, and clears the display at the end."""

    def __init__(self, series: Series) -> None:
        self._series = series
        self._progress: Progress | None = None
        self._reported_at = self._run_started_at = time.monotonic()
        self._load_seconds = 0.0
        self._overhead_seconds: list[float] = []
        """Of each run that has ended: how long it took besides its load, to prepare and to check it."""
        self._interrupted = False
        self._live: Live | None = None
        if sys.stderr.isatty():
            self._live = Live(
                console=Console(stderr=True),
                get_renderable=self._render,
                refresh_per_second=REFRESHES_PER_SECOND,
                transient=True,
            )

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._print_ended_run()
        self.stop()

    def stop(self) -> None:
        """Clear the display."""
        if self._live is not None:
            self._live.stop()

    def report(self, progress: Progress) -> None:
        """Take a progress report of the runner."""
        if self._progress is None or progress.place != self._progress.place:
            self._print_ended_run()
            self._run_started_at = time.monotonic()
            self._load_seconds = progress.seconds_left
        self._progress = progress
        self._reported_at = time.monotonic()

    def show_interrupt(self) -> None:
        """Show that the run is being stopped, which takes a moment."""
        self._interrupted = True
        if self._live is None:
            say("stopping the run; press Ctrl-C again to exit without waiting")

    def _print_ended_run(self) -> None:
        """Print a line about the run that has just ended."""
        if self._progress is None:
            return
        self._overhead_seconds.append(time.monotonic() - self._run_started_at - self._load_seconds)
        position, count = self._progress.place, len(self._series.record.runs)
        line = f"{position} of {count}: {_outcome(view(self._series, position))}"
        if self._live is None:
            say(line)
        else:
            self._live.console.print(Text(line, no_wrap=True, overflow="ellipsis"))

    # The display. No line may reach the edge: the ^C that a terminal prints would start a new line

    def _render(self) -> Group:
        if self._interrupted:
            return Group(Text("stopping the run …  (press Ctrl-C again to exit without waiting)", style="yellow"))
        progress = self._progress
        if progress is None:
            return Group(Text("connecting to the machines …", style="dim"))
        planned = self._series.record.runs[progress.place - 1]
        title = Text.assemble(
            (f"run {progress.place} of {progress.runs}", "bold"), f"  {planned.label}, repetition {planned.repetition}"
        )
        title.no_wrap, title.overflow = True, "ellipsis"
        return Group(title, self._progress_line(progress), _metrics_line(progress))

    def _progress_line(self, progress: Progress) -> Table:
        """The phase of the run, its remaining time, and that of the series."""
        run_seconds, series_seconds = self._remaining_load(progress), self._remaining_series(progress)
        line = Table.grid(padding=(0, 2, 0, 0))
        line.add_column(width=len("  cool-down"))
        line.add_row(
            Text(f"  {progress.phase}"),
            ProgressBar(total=self._load_seconds, completed=self._load_seconds - run_seconds, width=BAR_WIDTH),
            Text(f"{_format_duration(run_seconds)} left" if progress.phase in UNDER_LOAD else ""),
            Text(f"all runs in about {_format_duration(series_seconds)}" if series_seconds >= 1 else "", style="dim"),
        )
        return line

    def _remaining_load(self, progress: Progress) -> float:
        if progress.phase == "check":
            return 0.0
        elapsed = time.monotonic() - self._reported_at if progress.phase in UNDER_LOAD else 0.0
        return max(0.0, progress.seconds_left - elapsed)

    def _remaining_series(self, progress: Progress) -> float:
        """Seconds to the end of the series, if each run has the mean overhead of the runs so far."""
        load = self._remaining_load(progress)
        overhead = time.monotonic() - self._run_started_at - (self._load_seconds - load)  # of this run, so far
        expected = sum(self._overhead_seconds) / len(self._overhead_seconds) if self._overhead_seconds else overhead
        waiting = sum(run.state == "waiting" for run in self._series.record.runs)
        return load + max(0.0, expected - overhead) + progress.later_seconds + waiting * expected


def _metrics_line(progress: Progress) -> Text:
    if progress.throughput is None:
        return Text("  starting database, brokers and clients", style="dim")
    errors = Text(f"{progress.errors:,} errors", style="red" if progress.errors else "")
    mean = "" if progress.response_ms is None else f"{format_number(progress.response_ms)} ms"
    return Text("  ·  ").join([Text(f"  {progress.throughput:,.0f} requests/s"), Text(mean or "no answer"), errors])


def _outcome(run: RunView) -> str:
    name = f"{run.label}, repetition {run.repetition}"
    if run.state != "done":
        return f"{name} {run.state}: {run.why}"
    metrics = f"{format_number(run.metrics['throughput'])} requests/s, {format_number(run.metrics['mean_ms'])} ms"
    return f"{name}: {metrics}" if run.valid else f"{name}: {metrics}, but {run.sentences[0]}"


def _format_duration(seconds: float) -> str:
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute}:{second:02d}"
