"""`stafette bench`: how fast is it here?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from stafette.cli.broker_link import Data, Url, address
from stafette.cli.output import Json, show_record
from stafette.errors import InvalidRequest
from stafette.load import bench_load as load


def bench(
    url: Url = None,
    data: Data = None,
    clients: Annotated[int, typer.Option("--clients", min=1, help="Number of clients.")] = 64,
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, help="Length of the measurement.")] = 10.0,
    size: Annotated[int, typer.Option("--size", min=0, help="Bytes in each message.")] = 200,
    queues: Annotated[int, typer.Option("--queues", min=1, help="Number of queues.")] = 20,
    mix: Annotated[str, typer.Option("--mix", help=f"Shares of {', '.join(load.OPERATIONS)}.")] = "send:1,receive:1",
    rate: Annotated[
        float | None, typer.Option("--rate", min=0.1, help="Open loop with so many requests per second.")
    ] = None,
    echo: Annotated[
        bool, typer.Option("--echo", help="Send only echo requests, which the broker answers without the database.")
    ] = False,
    processes: Annotated[int, typer.Option("--processes", min=1, help="Processes of the load generator.")] = 1,
    trace: Annotated[Path | None, typer.Option("--trace", help="Folder for a trace of every request.")] = None,
    as_json: Json = False,
) -> None:
    """Measure throughput and response time with the public client, closed loop unless --rate is given.

    Example: stafette bench --clients 64 --seconds 10 --mix send:1,receive:1 --json
    """
    work = load.Load(
        address(url, data),
        clients=clients,
        seconds=seconds,
        size=size,
        queues=queues,
        mix={"echo": 1.0} if echo else shares(mix, load.OPERATIONS),
        rate=rate,
        processes=min(processes, clients),
        trace=trace,
    )

    def report(answers: int) -> None:
        if sys.stderr.isatty():
            print(f"\r{answers:,} requests answered ", end="", file=sys.stderr, flush=True)

    tally = load.run(work, report)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    show_tally(tally, work, as_json=as_json)


def show_tally(tally: load.Tally, work: load.Load, *, as_json: bool) -> None:
    """Print the metrics, rounded to three decimals."""
    summary = tally.summary(work)
    rounded = {name: round(value, 3) if isinstance(value, float) else value for name, value in summary.items()}
    show_record(rounded, as_json=as_json)


def shares(mix: str, operations: tuple[str, ...]) -> dict[str, float]:
    """Parse ``send:1,receive:1``."""
    weights: dict[str, float] = {}
    for part in mix.split(","):
        name, _, text = part.partition(":")
        try:
            weights[name] = float(text or 1)
        except ValueError as error:
            raise InvalidRequest(f"--mix: {text!r} is not a number; write for example send:1,receive:1") from error
        if name not in operations or weights[name] <= 0:
            raise InvalidRequest(f"--mix: {part!r} is not a positive share of {', '.join(operations)}")
    return weights
