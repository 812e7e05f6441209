"""What the database tier does on this machine: `make bench`, or `python -m bench.database [--quick] [--json]`.

On a fresh server in a temporary folder, with fsync on: batches against one operation per transaction, and reads of a
long queue against reads of a short one. Ratios are what to look at; they hardly depend on the machine or its mood.
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

AIM_OF_BATCHES = 3.0  # times one operation per transaction, at batches of 32, for send and receive
AIM_OF_DEPTH = 1.5  # times the time of a pop from a short queue

FULL = (throughput.Effort(repetitions=5, one_each=12_000, batched=40_000), depth.Effort(1_000, 1_000_000, 200))
QUICK = (throughput.Effort(repetitions=1, one_each=8_000, batched=24_000), depth.Effort(1_000, 100_000, 50))

progress = Console(stderr=True)


def say(step: str) -> None:
    progress.print(step, style="dim", highlight=False)


async def measure(quick: bool) -> dict[str, Any]:
    to_pass, to_store = QUICK if quick else FULL
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="stafette-bench-") as folder:
        server = EmbeddedPostgres(Path(folder))
        server.start()
        try:
            await schema.migrate(server.url)
            rates = await throughput.measure(server, to_pass, say)
            times = await depth.measure(server, to_store, say)
        finally:
            server.stop()
    return {
        "machine": {"processors": os.cpu_count(), "load": os.getloadavg()[0], "system": platform.platform()},
        "throughput": {
            operation: {variant: asdict(result) for variant, result in by_variant.items()}
            for operation, by_variant in rates.items()
        },
        "depth": {
            "few": to_store.few,
            "many": to_store.many,
            "reads": {name: {key: round(value, 3) for key, value in read.items()} for name, read in times.items()},
        },
        "seconds": round(time.monotonic() - started),
    }


def show(found: dict[str, Any]) -> None:
    out = Console()
    out.print(throughput_table(found["throughput"]))
    out.print(depth_table(found["depth"]))
    out.print(f"{found['seconds']} s on {found['machine']['processors']} processors", style="dim", highlight=False)


def throughput_table(rates: dict[str, Any]) -> Table:
    table = Table("operation", title=f"Operations/s (aim: batches of 32 at {AIM_OF_BATCHES:g} × for send and receive)")
    for variant in rates["send"]:
        table.add_column(variant, justify="right")
    for operation, by_variant in rates.items():
        table.add_row(operation, *(f"{it['per_second']:,}  {it['ratio']:>5.2f} ×" for it in by_variant.values()))
    return table


def depth_table(depths: dict[str, Any]) -> Table:
    table = Table("read", title=f"Milliseconds by messages stored (aim: at most {AIM_OF_DEPTH:g} ×)")
    for column in (f"{depths['few']:,}", f"{depths['many']:,}", "ratio"):
        table.add_column(column, justify="right")
    for name, read in depths["reads"].items():
        table.add_row(name, f"{read['few_ms']:.2f}", f"{read['many_ms']:.2f}", f"{read['ratio']:.2f} ×")
    return table


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m bench.database", description=__doc__)
    options.add_argument("--quick", action="store_true", help="less of everything: half a minute, rough figures")
    options.add_argument("--json", action="store_true", help="print one JSON object")
    chosen = options.parse_args()
    found = asyncio.run(measure(chosen.quick))
    if chosen.json:
        json.dump(found, sys.stdout, indent=2)
        print()
    else:
        show(found)


if __name__ == "__main__":
    main()
