"""`make torture`, or `python -m bench.torture [--kills N] [--fault NAME …] [--use NAME …] [--seconds S] [--defects]`.

Every fault, with all uses under load at once; then a table of what was answered and what came of it. With `--defects`
known defects are planted instead, one at a time. The exit code is 1 if a promise is broken, or a defect is not found.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from bench.torture import report
from bench.torture.defects import DEFECTS, Search, search
from bench.torture.faults import BY_NAME, FAULTS, Unsuitable
from bench.torture.runner import Run, torture
from bench.torture.uses import USES

KILLS = 34
"""Of each fault: with nine of them more than three hundred."""
SECONDS = 400.0
WIDTH = 165
"""Of the tables, also where the terminal is narrower: lines may wrap, columns must not."""

progress = Console(stderr=True)


def say(step: str) -> None:
    progress.print(step, style="dim", highlight=False, soft_wrap=True)


async def torture_all(faults: Sequence[str], use_names: Sequence[str], kills: int, seconds: float) -> list[Run]:
    """Each fault in a system of its own."""
    uses = [use for use in USES if use.name in use_names]
    runs = []
    for name in faults:
        say(f"{name}, {kills} times")
        try:
            run = await torture(BY_NAME[name], uses, strikes=kills, seconds=seconds)
        except Unsuitable as reason:
            run = Run(name, skipped=f"skipped: {reason}")
        for sentence in report.sentences([run]):
            say(f"  {sentence}")
        runs.append(run)
    return runs


async def search_all(names: Sequence[str]) -> list[Search]:
    """Each defect in a system of its own."""
    searches = []
    for defect in DEFECTS:
        if not names or any(name in defect.name for name in names):
            searches.append(await search(defect, say))
            say(f"  {', '.join(searches[-1].flaws) or 'not seen'}")
    return searches


def main() -> None:
    """Exit with 1 if something is wrong; SIGTERM is Ctrl-C, after which all processes are ended."""
    signal.signal(signal.SIGTERM, lambda _number, _frame: signal.raise_signal(signal.SIGINT))
    try:
        sys.exit(run())
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)


def run() -> bool:
    """Do what the command line says; returns whether something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench.torture", description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=KILLS, help="how often each fault strikes")
    parser.add_argument("--fault", nargs="+", choices=list(BY_NAME), default=[fault.name for fault in FAULTS])
    parser.add_argument("--use", nargs="+", choices=[use.name for use in USES], default=[use.name for use in USES])
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for the strikes of each fault, at most")
    parser.add_argument("--defects", nargs="*", metavar="WORDS", help="plant defects, or those with such names")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    table: Table
    if options.defects is None:
        runs = asyncio.run(torture_all(options.fault, options.use, options.kills, options.seconds))
        results = {"faults": [report.run_row(run) for run in runs]}
        table = report.run_table(runs)
        failed = any(run.violations for run in runs)
    else:
        searches = asyncio.run(search_all(options.defects))
        results = {"defects": [report.search_row(result) for result in searches]}
        table = report.search_table(searches)
        failed = not all(result.flaws for result in searches)
    if options.json:
        json.dump(results, sys.stdout, indent=2)
        print()
    else:
        console = Console()
        console.width = max(console.width, WIDTH)
        console.print(table)
    return failed


if __name__ == "__main__":
    main()
