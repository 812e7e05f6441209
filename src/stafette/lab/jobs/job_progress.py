"""A job under way, as those who watch see it: told piece by piece by the child, and to each watcher from the start."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

MOST_POINTS = 3600
MOST_LINES = 200


class Live:
    """What is known of a job while it goes on."""

    def __init__(self) -> None:
        self.series: str | None = None
        self.progress: dict[str, Any] | None = None
        """How far the run is; see the laboratory's Progress."""
        self.points: list[dict[str, Any]] = []
        """Throughput, response time and errors, about a second apart."""
        self.lines: list[str] = []
        self.said = 0
        """How many lines there were, also those that are not kept."""
        self.drawn = 0
        """How many points there were."""
        self.phase = "starts"
        self.over = False
        self.changed = asyncio.Event()
        """Set at the next change, and then replaced: take it before looking."""
        self._errors = 0
        self._place = 0

    def hear(self, event: Mapping[str, Any]) -> None:
        """Take in what the child tells."""
        match event.get("kind"):
            case "series":
                self.series = event["name"]
            case "progress":
                self._hear_progress(dict(event))
            case "phase":
                self.phase = event["phase"]
            case "said":
                self._say(str(event["line"]))
        self._wake()

    def say(self, line: str) -> None:
        """Add a line to the log."""
        self._say(line)
        self._wake()

    def end(self) -> None:
        """Nothing more will come."""
        self.over = True
        self._wake()

    def _say(self, line: str) -> None:
        self.lines = [*self.lines, line][-MOST_LINES:]
        self.said += 1

    def _hear_progress(self, event: dict[str, Any]) -> None:
        event.pop("kind")
        self.progress, self.phase = event, event["phase"]
        if event["place"] != self._place:
            self._place, self._errors = event["place"], 0
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
        self.drawn += 1

    def _wake(self) -> None:
        waiting, self.changed = self.changed, asyncio.Event()
        waiting.set()

    def state(self, points_after: int = 0, lines_after: int = 0) -> dict[str, Any]:
        """What to show; with points and lines only those that are newer than what the watcher has."""
        fresh_points, fresh_lines = self.drawn - points_after, self.said - lines_after
        return {
            "series": self.series,
            "phase": self.phase,
            "progress": self.progress,
            "points": self.points[-fresh_points:] if fresh_points else [],
            "lines": self.lines[-fresh_lines:] if fresh_lines else [],
        }
