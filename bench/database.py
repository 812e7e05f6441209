"""Throughput and read times of the database tier: `make bench`, or `python -m bench.database [--quick] [--json]`.

On a fresh server in a temporary folder, with fsync on: batches compared with one operation per transaction, and reads
of a long queue with reads of a short one. The ratios hardly depend on the machine and its other load.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import depth, throughput
from stafette.database import schema
from stafette.database.embedded import EmbeddedPostgres

BATCH_TARGET = 3.0  # times one operation per transaction, at batches of 32, for send and receive
DEPTH_TARGET = 1.5  # times the time of a pop from a short queue

FULL = (throughput.Effort(repetitions=5, one_each=12_000, batched=40_000), depth.Effort(1_000, 1_000_000, 200))
QUICK = (throughput.Effort(repetitions=1, one_each=8_000, batched=24_000), depth.Effort(1_000, 100_000, 50))

progress = Console(stderr=True)


def say(step: str) -> None:
    progress.print(step, style="dim", highlight=False)


async def measure(quick: bool) -> dict[str, Any]:
    throughput_effort, depth_effort = QUICK if quick else FULL
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="stafette-bench-") as folder:
        server = EmbeddedPostgres(Path(folder))
        server.start()
        try:
            await schema.migrate(server.url)
            rates = await throughput.measure(server, throughput_effort, say)
            times = await depth.measure(server, depth_effort, say)
        finally:
            server.stop()
    return {
        "machine": {"processors": os.cpu_count(), "load": os.getloadavg()[0], "system": platform.platform()},
        "throughput": {
            operation: {variant: asdict(result) for variant, result in by_variant.items()}
            for operation, by_variant in rates.items()
        },
        "depth": {
            "few": depth_effort.few,
            "many": depth_effort.many,
            "reads": {name: {key: round(value, 3) for key, value in read.items()} for name, read in times.items()},
        },
        "seconds": round(time.monotonic() - started),
    }


def show(results: dict[str, Any]) -> None:
    out = Console()
    out.print(throughput_table(results["throughput"]))
    out.print(depth_table(results["depth"]))
    out.print(f"{results['seconds']} s on {results['machine']['processors']} processors", style="dim", highlight=False)


def throughput_table(rates: dict[str, Any]) -> Table:
    table = Table("operation", title=f"Operations/s (target: batches of 32 at {BATCH_TARGET:g} × for send and receive)")
    for variant in rates["send"]:
        table.add_column(variant, justify="right")
    for operation, by_variant in rates.items():
        table.add_row(
            operation, *(f"{result['per_second']:,}  {result['ratio']:>5.2f} ×" for result in by_variant.values())
        )
    return table


def depth_table(depths: dict[str, Any]) -> Table:
    table = Table("read", title=f"Milliseconds by messages stored (target: at most {DEPTH_TARGET:g} ×)")
    for column in (f"{depths['few']:,}", f"{depths['many']:,}", "ratio"):
        table.add_column(column, justify="right")
    for name, read in depths["reads"].items():
        table.add_row(name, f"{read['few_ms']:.2f}", f"{read['many_ms']:.2f}", f"{read['ratio']:.2f} ×")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.database", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions: half a minute, rough results")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    results = asyncio.run(measure(arguments.quick))
    if arguments.json:
        json.dump(results, sys.stdout, indent=2)
        print()
    else:
        show(results)


if __name__ == "__main__":
    main()
