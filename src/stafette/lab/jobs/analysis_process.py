"""Analyses series, one after the other, in a process whose Spark stays warm between them.

Each line of its input is an order. The end of the input means that nobody needs it any more; then it ends, even in the
middle of an analysis, and Java with it.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from stafette.errors import StafetteError
from stafette.lab.jobs.job_events import INTERRUPTED, send_event, take_output
from stafette.pipeline import default_analysis

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class AnalysisOrder(msgspec.Struct):
    """What is to be analysed."""

    folder: str
    quick: bool
    """Which Spark is started for the first order; later ones take the Spark that runs."""


class Analyst:
    """Analyses with a Spark that it starts for the first order."""

    def __init__(self, out: int) -> None:
        self._out = out
        self._spark: SparkSession | None = None
        self.busy = False

    def analyse(self, order: AnalysisOrder) -> None:
        """Analyse a series and send events about it."""
        folder = Path(order.folder)
        try:
            if self._spark is None:
                self._spark = default_analysis.start_spark(self._say, quick=order.quick)
            report = default_analysis.report_with(self._spark, folder, self._say)
        except (StafetteError, OSError) as error:
            self._end("failed", str(error))
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        else:
            self._say(f"the report is {report}")
            self._end("done", f"{folder.name} is analysed")

    def stop(self) -> None:
        """Stop Spark."""
        if self._spark is not None:
            self._spark.stop()

    def _say(self, line: str) -> None:
        send_event(self._out, "said", line=line)

    def _end(self, state: str, detail: str) -> None:
        self.busy = False
        send_event(self._out, "end", state=state, sentence=detail)


def main() -> None:
    """Analyse what is ordered until the input ends."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: os._exit(INTERRUPTED))  # Java ends when we do
    analyst = Analyst(take_output())
    with ThreadPoolExecutor(1) as worker:  # in the main thread Spark would take over the signals
        for line in sys.stdin.buffer:
            analyst.busy = True
            worker.submit(analyst.analyse, msgspec.json.decode(line, type=AnalysisOrder))
        if analyst.busy:
            os._exit(INTERRUPTED)
        worker.submit(analyst.stop)


if __name__ == "__main__":
    main()
