"""The progress of a running job: built from the child's events, and sent to each watcher from the start."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

MOST_POINTS = 3600
MOST_LINES = 200


class JobProgress:
    """The progress of a job while it runs."""

    def __init__(self) -> None:
        self.series: str | None = None
        self.progress: dict[str, Any] | None = None
        """The progress of the current run; see `runner.Progress`."""
        self.points: list[dict[str, Any]] = []
        """Throughput, response time and errors, about a second apart."""
        self.lines: list[str] = []
        self.line_count = 0
        """Number of lines so far, including those that were dropped."""
        self.point_count = 0
        """Number of points so far."""
        self.phase = "starts"
        self.over = False
        self.changed = asyncio.Event()
        """Set at the next change and then replaced: get it before reading the state."""
        self._errors = 0
        self._run_position = 0

    def handle_event(self, event: Mapping[str, Any]) -> None:
        """Handle an event of the child."""
        match event.get("kind"):
            case "series":
                self.series = event["name"]
            case "progress":
                self._handle_progress(dict(event))
            case "phase":
                self.phase = event["phase"]
            case "said":
                self._add_line(str(event["line"]))
        self._wake()

    def add_line(self, line: str) -> None:
        """Add a line to the log."""
        self._add_line(line)
        self._wake()

    def end(self) -> None:
        """Mark the end of the job."""
        self.over = True
        self._wake()

    def _add_line(self, line: str) -> None:
        self.lines = [*self.lines, line][-MOST_LINES:]
        self.line_count += 1

    def _handle_progress(self, event: dict[str, Any]) -> None:
        event.pop("kind")
        self.progress, self.phase = event, event["phase"]
        if event["place"] != self._run_position:
            self._run_position, self._errors = event["place"], 0
        if event["throughput"] is None or event["phase"] in ("prepare", "check"):
            return
        self.points = [
            *self.points,
            {
                "at": event["at"],
                "place": event["place"],
                "throughput": event["throughput"],
                "response_ms": event["response_ms"],
                "errors": event["errors"] - self._errors,
            },
        ][-MOST_POINTS:]
        self._errors = event["errors"]
        self.point_count += 1

    def _wake(self) -> None:
        waiting, self.changed = self.changed, asyncio.Event()
        waiting.set()

    def state(self, points_after: int = 0, lines_after: int = 0) -> dict[str, Any]:
        """The state for a watcher, with the points and lines after those that it has."""
        new_points, new_lines = self.point_count - points_after, self.line_count - lines_after
        return {
            "series": self.series,
            "phase": self.phase,
            "progress": self.progress,
            "points": self.points[-new_points:] if new_points else [],
            "lines": self.lines[-new_lines:] if new_lines else [],
        }
