"""A series under way, for the person who waits: drawn on a terminal, a line for each finished run elsewhere."""

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

from stafette.cli.output import figure, say
from stafette.lab.running.runner import Progress
from stafette.lab.series.run_views import RunView, view
from stafette.lab.series.series_folder import Series

UNDER_LOAD = ("warm-up", "measure", "cool-down")
BAR_WIDTH = 32
PICTURES_PER_SECOND = 4


class Follower:
    """Follows a series on standard error; what it draws is gone when it leaves."""

    def __init__(self, series: Series) -> None:
        self._series = series
        self._now: Progress | None = None
        self._heard = self._began = time.monotonic()
        self._run_seconds = 0.0
        self._beside: list[float] = []
        """How long each run took beside its load: to prepare it and to check it."""
        self._breaking_off = False
        self._live: Live | None = None
        if sys.stderr.isatty():
            self._live = Live(
                console=Console(stderr=True),
                get_renderable=self._picture,
                refresh_per_second=PICTURES_PER_SECOND,
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
            self._tell_of_last()
        self.stop()

    def stop(self) -> None:
        """Leave the terminal as it was."""
        if self._live is not None:
            self._live.stop()

    def report(self, progress: Progress) -> None:
        """Take in how far the series is."""
        if self._now is None or progress.place != self._now.place:
            self._tell_of_last()
            self._began = time.monotonic()
            self._run_seconds = progress.seconds_left
        self._now = progress
        self._heard = time.monotonic()

    def broken_off(self) -> None:
        """Say that it takes a moment."""
        self._breaking_off = True
        if self._live is None:
            say("ending what runs; a further Ctrl-C leaves that to itself")

    def _tell_of_last(self) -> None:
        """One line about the run that has just ended."""
        if self._now is None:
            return
        self._beside.append(time.monotonic() - self._began - self._run_seconds)
        place, runs = self._now.place, len(self._series.record.runs)
        line = f"{place} of {runs}: {_outcome(view(self._series, place))}"
        if self._live is None:
            say(line)
        else:
            self._live.console.print(Text(line, no_wrap=True, overflow="ellipsis"))

    # The picture; no line may reach the edge, or the ^C that a terminal writes would begin a new one

    def _picture(self) -> Group:
        if self._breaking_off:
            return Group(Text("ending what runs …  (a further Ctrl-C leaves that to itself)", style="yellow"))
        now = self._now
        if now is None:
            return Group(Text("reaching the machines …", style="dim"))
        planned = self._series.record.runs[now.place - 1]
        title = Text.assemble(
            (f"run {now.place} of {now.runs}", "bold"), f"  {planned.label}, repetition {planned.repetition}"
        )
        title.no_wrap, title.overflow = True, "ellipsis"
        return Group(title, self._course(now), _figures(now))

    def _course(self, now: Progress) -> Table:
        """How far the run is, and when it and all others will be over."""
        left, to_come = self._left(now), self._to_come(now)
        line = Table.grid(padding=(0, 2, 0, 0))
        line.add_column(width=len("  cool-down"))
        line.add_row(
            Text(f"  {now.phase}"),
            ProgressBar(total=self._run_seconds, completed=self._run_seconds - left, width=BAR_WIDTH),
            Text(f"{_clock(left)} left" if now.phase in UNDER_LOAD else ""),
            Text(f"all in about {_clock(to_come)}" if to_come >= 1 else "", style="dim"),
        )
        return line

    def _left(self, now: Progress) -> float:
        if now.phase == "check":
            return 0.0
        since = time.monotonic() - self._heard if now.phase in UNDER_LOAD else 0.0
        return max(0.0, now.seconds_left - since)

    def _to_come(self, now: Progress) -> float:
        """How long all that is missing will take, going by what the runs so far took beside their load."""
        load = self._left(now)
        spent = time.monotonic() - self._began - (self._run_seconds - load)  # on this run, beside its load
        usual = sum(self._beside) / len(self._beside) if self._beside else spent
        waiting = sum(run.state == "waiting" for run in self._series.record.runs)
        return load + max(0.0, usual - spent) + now.later_seconds + waiting * usual


def _figures(now: Progress) -> Text:
    if now.throughput is None:
        return Text("  database, brokers and clients start", style="dim")
    errors = Text(f"{now.errors:,} errors", style="red" if now.errors else "")
    mean = "" if now.response_ms is None else f"{figure(now.response_ms)} ms"
    return Text("  ·  ").join([Text(f"  {now.throughput:,.0f} requests/s"), Text(mean or "no answer"), errors])


def _outcome(run: RunView) -> str:
    name = f"{run.label}, repetition {run.repetition}"
    if run.state != "done":
        return f"{name} {run.state}: {run.why}"
    figures = f"{figure(run.metrics['throughput'])} requests/s, {figure(run.metrics['mean_ms'])} ms"
    return f"{name}: {figures}" if run.valid else f"{name}: {figures}, but {run.sentences[0]}"


def _clock(seconds: float) -> str:
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute}:{second:02d}"
