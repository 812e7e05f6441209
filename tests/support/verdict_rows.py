"""Rows of a sound run, and what the verdict says of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from stafette.lab.running.summarise import summarise
from stafette.lab.running.trace_rows import Rows
from stafette.lab.running.verdict import RunContext, check
from stafette.runs.records import Check, Done, Spread
from stafette.runs.window import Window
from tests.support.run_traces import MILLISECOND, SECOND, Row, at_broker, run_of

WINDOW = Window(0, 10 * SECOND)
NODES = ("load-1", "broker-1")


def worker(cpu_share: float = 0.3, late_ms: float = 0.1, starved_share: float = 0.0) -> Done:
    return Done(100, {}, 100, cpu_share, Spread(late_ms, late_ms, late_ms), Spread(), 100, 0, starved_share)


CONTEXT = RunContext(nodes=NODES, preloaded=5, remaining=10, workers={"load-1": worker()})


def request(number: int, operation: str = "send", outcome: str = "ok", messages: int = 1) -> Row:
    start = number * 50 * MILLISECOND
    return Row("alice-1", number, operation, outcome, start, start, start + 40 * MILLISECOND, messages)


def sound() -> list[Row]:
    """20 messages sent, 10 received one by one, 5 leased and acknowledged; with the 5 preloaded, 10 are left."""
    asked = [request(number) for number in range(1, 21)]
    asked += [request(number, "receive") for number in range(21, 31)]
    asked += [request(number, "lease") for number in range(31, 36)]
    asked += [request(number, "ack") for number in range(36, 41)]
    asked += [request(41, "receive", "empty", 0), request(42, "send", "QueueNotFound", 0)]
    return [*asked, *map(at_broker, asked)]


def checked(folder: Path | Rows, made_up: list[Row] | None = None, context: RunContext = CONTEXT) -> dict[str, Check]:
    rows = folder if isinstance(folder, Rows) else run_of(folder, made_up or [])
    return {found.name: found for found in check(rows, summarise(rows, WINDOW), context)}


def failed(checks: dict[str, Check]) -> list[str]:
    return [name for name, found in checks.items() if not found.ok]


def place_of(rows: list[Row], tier: str, number: int) -> int:
    [place] = [place for place, row in enumerate(rows) if (row.tier, row.request) == (tier, number)]
    return place


def altered(tier: str, number: int, **changes: object) -> list[Row]:
    rows = sound()
    place = place_of(rows, tier, number)
    rows[place] = replace(rows[place], **changes)  # type: ignore[arg-type]
    return rows
