"""Analyses of the job queue: a child whose Spark stays warm, until nothing was analysed for a while."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from stafette.lab.jobs.job_child import EventHandler, JobChild
from stafette.pipeline import input_size

IDLE_SECONDS = 300.0
"""How long a Spark without work is kept. It takes up to 1.4 GB of memory then, and 0.2 % of a core."""


class WarmAnalysis:
    """Analyses series in a child that is started when it is first needed."""

    def __init__(self, runs: Path, idle_seconds: float = IDLE_SECONDS) -> None:
        self._runs = runs
        self._idle_seconds = idle_seconds
        self._child: JobChild | None = None
        self._quick = True
        self._interrupted = False
        self._idle: asyncio.Task[None] | None = None

    async def analyse(self, folder: Path, handle: EventHandler) -> dict[str, Any]:
        """Analyse a series; returns the last event. Raises StafetteError if the child ends before."""
        self._interrupted = False
        quick = await asyncio.to_thread(input_size.is_small, [folder])
        self._stop_idling()
        if self._child is None or self._child.ended or (self._quick and not quick):
            await self._end_child()  # a Spark that started quickly is slow for long work; the other serves both
            self._child, self._quick = await JobChild.start("stafette.lab.jobs.analysis_process", self._runs), quick
            if self._interrupted:
                self._child.interrupt()
        end = None
        try:
            end = await self._child.work({"folder": str(folder), "quick": quick}, handle)
        finally:
            if end is None or end["state"] != "done":
                await self._end_child()  # the next analysis starts afresh
            else:
                self._idle = asyncio.create_task(self._end_when_idle())
        return end

    def interrupt(self) -> None:
        """Interrupt an analysis."""
        self._interrupted = True
        if self._child is not None:
            self._child.interrupt()

    async def close(self) -> None:
        """End the child."""
        self._stop_idling()
        await self._end_child()

    def _stop_idling(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    async def _end_when_idle(self) -> None:
        await asyncio.sleep(self._idle_seconds)
        await self._end_child()

    async def _end_child(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            await child.close()
