"""Checks of the load generator: saturated, late, or slower than Little's law allows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from stafette.lab.running.summarise import summarise
from stafette.lab.running.verdict import RunContext, check, verdict
from stafette.runs.closed_loop import ClosedLoop
from tests.support.run_traces import MILLISECOND, SECOND, Row, at_broker, run_of
from tests.support.verdict_rows import CONTEXT, NODES, WINDOW, checked, failed, sound, worker

# generator


def test_a_worker_that_uses_its_whole_core(tmp_path: Path) -> None:
    workers = {"load-1": worker(0.4), "load-2": worker(0.9)}
    checks = checked(tmp_path, sound(), replace(CONTEXT, workers=workers))
    assert failed(checks) == ["generator"]
    assert checks["generator"].sentence == (
        "the load generator was saturated, so the figures may be its own: load-2 used 90% of a core; "
        "use more load_processes, more client hosts or fewer clients"
    )


def open_loop(steps: int, late: float = 0.001) -> list[Row]:
    """So many steps of two requests in ten seconds; the first of each bears the step's intended start."""
    rows = []
    for number in range(steps):
        intended = number * 10 * SECOND // steps
        start = intended + round(late * SECOND)
        end = start + 20 * MILLISECOND
        name = f"open-loop-{number % 3}"
        rows.append(Row(name, 2 * number + 1, "echo", "ok", intended, start, end))
        rows.append(Row(name, 2 * number + 2, "echo", "ok", end, end, end + MILLISECOND))
    return [*rows, *map(at_broker, rows)]


@pytest.mark.parametrize(("late", "mean_ms", "saturated"), [(4.9, 20.0, False), (5.1, 20.0, True), (5.1, 60.0, False)])
def test_steps_that_start_late(tmp_path: Path, late: float, mean_ms: float, saturated: bool) -> None:
    rows = run_of(tmp_path, open_loop(1000))
    summary = summarise(rows, WINDOW)
    slow = msgspec.structs.replace(summary, overall=msgspec.structs.replace(summary.overall, mean_ms=mean_ms))
    context = RunContext(nodes=NODES, workers={"load-1": worker(late_ms=late)}, rates={"open-loop": 100.0})
    [generator] = [found for found in check(rows, slow, context) if found.name == "generator"]
    assert generator.ok != saturated
    if saturated:
        assert "load-1 started its steps 5.1 ms late on average; use more load_processes" in generator.sentence
    assert check(rows, slow, replace(context, rates={}))[-1].ok  # a closed loop has no intended starts


@pytest.mark.parametrize(("rate", "saturated"), [(400.0, False), (420.0, False), (422.0, True), (800.0, True)])
def test_a_rate_that_was_not_reached(tmp_path: Path, rate: float, saturated: bool) -> None:
    context = RunContext(nodes=NODES, workers={"load-1": worker()}, rates={"open-loop": rate})
    generator = checked(tmp_path, open_loop(4000), context)["generator"]
    assert generator.ok != saturated
    if saturated:
        assert f"open-loop started 400.0 steps per second instead of {rate:.1f}" in generator.sentence
        assert generator.sentence.endswith("use more load_processes, more client hosts or a lower rate")


def test_chance_alone_does_not_make_a_generator_slow(tmp_path: Path) -> None:
    """Of 100 random arrivals 80 come once in fifty runs; 60 hardly ever do."""
    context = RunContext(nodes=NODES, rates={"open-loop": 10.0})
    assert checked(tmp_path, open_loop(80), context)["generator"].ok
    assert not checked(tmp_path, open_loop(60), context)["generator"].ok


def test_a_group_that_did_not_start_at_all(tmp_path: Path) -> None:
    context = RunContext(nodes=NODES, rates={"carl": 10.0})
    assert "carl started 0.0 steps per second" in checked(tmp_path, sound(), context)["generator"].sentence


# Little's law


def closed_loop(clients: int, response: float, think_time: float) -> list[Row]:
    """Clients that ask, think and ask again from five seconds before the window until after it."""
    rows = []
    cycle = response + think_time
    for number in range(clients):
        begin = -5.0 + number / clients * cycle
        for turn in range(int(17 / cycle)):
            start = round((begin + turn * cycle) * SECOND)
            rows.append(Row(f"bob-{number}", turn + 1, "echo", "ok", start, start, start + round(response * SECOND)))
    return [*rows, *map(at_broker, rows)]


def test_littles_law(tmp_path: Path) -> None:
    rows = run_of(tmp_path, closed_loop(20, 0.1, 0.3))
    context = RunContext(nodes=NODES, closed_loop=ClosedLoop(20, 0.3))
    law = checked(rows, context=context)["littles law"]
    assert (law.ok, law.advisory) == (True, True)
    assert law.sentence == "Little's law holds: X·R + S·Z = 20.0 for 20 clients"
    assert checked(rows, context=replace(context, closed_loop=ClosedLoop(20, 0.3, steps_per_s=50.0)))["littles law"].ok
    assert not checked(rows, context=replace(context, closed_loop=ClosedLoop(20, 0.3, steps_per_s=25.0)))[
        "littles law"
    ].ok


def test_littles_law_that_does_not_hold_is_advice(tmp_path: Path) -> None:
    rows = run_of(tmp_path, closed_loop(20, 0.1, 0.3))
    checks = checked(rows, context=RunContext(nodes=NODES, closed_loop=ClosedLoop(25, 0.3)))
    assert failed(checks) == ["littles law"]
    judged = verdict(list(checks.values()))
    assert judged.valid
    assert judged.sentences[0].startswith("Little's law does not hold: X·R + S·Z = 20.0 for 25 clients; ")


def test_a_generator_that_waited_for_a_core_is_as_bad_as_one_that_used_it(tmp_path: Path) -> None:
    context = replace(CONTEXT, workers={"load-1": worker(0.5, starved_share=0.45)})
    told = checked(tmp_path, sound(), context)["generator"]
    assert not told.ok
    assert "load-1 used 50% of a core and waited for one 45% of the time" in told.sentence
