"""How the figures came about: what a reader needs to judge them, and to make them again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stafette.report.figures.style import number
from stafette.report.figures.table_rows import RunFacts, Tables, distinct, select
from stafette.report.grids import Cell, Grid, grid, made, pairs

ABOUT_RUNS = frozenset({"runs", "rejected"})
"""Facts that have a place of their own."""


def sentences(tables: Tables, runs: Sequence[RunFacts], facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The method, point by point."""
    level = (facts.get("options") or {}).get("level")
    percent = f"{number(100 * level)} %" if isinstance(level, float) else "95 %"
    return [
        (
            "Response time",
            "In the client: from the moment a request was meant to be sent until its answer was there, so that a "
            "stalled system cannot hide by holding up its clients. In the broker: from its arrival to the answer.",
        ),
        ("Window", _window(tables, runs)),
        (
            "Percentiles",
            "Nearest rank over all requests in the window, counted per microsecond: values that occurred, never "
            "interpolated and never averaged. p99 is the least value that at least 99 % of the requests do not "
            "exceed.",
        ),
        (
            "Throughput",
            "Answers that ended in the window, divided by its length.",
        ),
        (
            "Intervals",
            f"At the level {percent}. “Over repetitions”: Student t over the values of independent runs. “Batch "
            "means”: Student t over means of successive stretches of one run. “t, iid” and “χ², iid”: as if "
            "requests were independent of each other, given for comparison with reports that do so.",
        ),
        (
            "Warm-up",
            "MSER-5: the point after which the mean of the rest has the least standard error, over batches of "
            "five windows. It is shown beside the warm-up that was given, which is the one that counts unless "
            "`--warm-up auto` asked for the one found.",
        ),
        (
            "Breakdown",
            "Rows of client and broker are joined by client and request. What the phases of neither explain is "
            "called network and rest: sockets, kernels, event loops, and the clocks' error between machines.",
        ),
        (
            "Effects",
            "From the sign table: the sum of sign × response, divided by the number of points. Share of "
            "variation: the effect's part of the total sum of squares; with repetitions the rest is left to "
            "chance.",
        ),
    ]


def _window(tables: Tables, runs: Sequence[RunFacts]) -> str:
    spans = dict.fromkeys(
        (number(stages.window_from_s), number(stages.window_to_s - stages.window_from_s))
        for stages in (run.stages(tables) for run in runs)
        if stages.window_from_s is not None and stages.window_to_s is not None
    )
    if not spans:
        return "The whole load counts; the source gives no warm-up."
    if len(spans) == 1:
        before, length = next(iter(spans))
        return f"{length} s count, after {before} s of warm-up; what came before and after is shaded and left out."
    return "Warm-up and cool-down are left out; their lengths differ from run to run and are shaded in the figures."


def grids(runs: Sequence[RunFacts], facts: Mapping[str, Any]) -> list[tuple[str, Grid]]:
    """Runs, machines, versions and settings."""
    made_up = [("Runs", _runs(runs)), ("Machines and clocks", _machines(runs)), ("Versions", _versions(runs, facts))]
    rest = {key: value for key, value in facts.items() if key not in ABOUT_RUNS | {"versions"}}
    found = [(title, content) for title, content in made_up if content is not None]
    if rest:
        found.append(("The analysis", pairs(rest)))
    found.extend(_settings(runs))
    return found


def _runs(runs: Sequence[RunFacts]) -> Grid | None:
    rows = []
    for run in runs:
        more = run.more
        clients = more.get("clients")
        total = sum(clients.values()) if isinstance(clients, Mapping) and clients else clients or None
        rows.append(
            {"run": run.run, "seed": str(more["seed"]) if "seed" in more else None, "clients": total,
             "think_time_s": more.get("think_time_s"), "brokers": more.get("brokers"), "began": more.get("started_at")}
        )  # fmt: skip
    return grid(rows, "summary", list(rows[0]), most=len(rows)) if rows else None


def _machines(runs: Sequence[RunFacts]) -> Grid | None:
    """Each machine once, with the largest clock offset that was seen."""
    found: dict[str, tuple[Mapping[str, Any], int, int]] = {}
    for run in runs:
        for machine in run.more.get("machines") or []:
            name = str(machine.get("name"))
            for clock in (machine.get("clock_before"), machine.get("clock_after")):
                offset, error = (int(clock["offset_ns"]), int(clock["error_ns"])) if clock else (0, 0)
                _, before, error_before = found.get(name, (machine, 0, 0))
                found[name] = machine, max(before, offset, key=abs), max(error_before, error)
    body = []
    for name, (machine, offset, error) in found.items():
        facts = machine.get("facts") or {}
        memory = facts.get("memory_bytes")
        body.append(
            [Cell(name), Cell(str(machine.get("address", "–"))), Cell(str(facts.get("system", "–"))),
             Cell(str(facts.get("machine", "–"))), Cell(number(facts.get("cores")), True),
             Cell(number(memory / 2**30) if memory else "–", True), Cell(str(facts.get("python", "–"))),
             Cell(number(offset / 1e3), True), Cell(number(error / 1e3), True)]
        )  # fmt: skip
    heads = [
        "machine",
        "address",
        "system",
        "kind",
        "cores",
        "memory GiB",
        "Python",
        "clock ahead µs",
        "give or take µs",
    ]
    note = "The largest offset from the runner's clock, before or after a run; times were put right by the first."
    return made(heads, body, note) if body else None


def _versions(runs: Sequence[RunFacts], facts: Mapping[str, Any]) -> Grid | None:
    versions: dict[str, Any] = dict(facts.get("versions") or {})
    for key in ("stafette", "revision", "python"):
        told = list(dict.fromkeys(str(run.more[key]) for run in runs if run.more.get(key)))
        if told:
            versions[f"runs: {key}"] = ", ".join(told)
    databases = [run.more["database"] for run in runs if run.more.get("database")]
    for name in dict.fromkeys(key for database in databases for key in database):
        versions[f"PostgreSQL: {name}"] = ", ".join(dict.fromkeys(str(d.get(name)) for d in databases))
    return pairs(versions) if versions else None


def _settings(runs: Sequence[RunFacts]) -> list[tuple[str, Grid]]:
    """The settings of each experiment once; what differs between its runs is in their labels."""
    found = []
    for experiment in distinct([{"experiment": run.experiment} for run in runs], "experiment"):
        run = next(run for run in runs if run.experiment == experiment)
        if run.more.get("settings"):
            found.append((f"Settings of {experiment or run.run} (as in {run.title})", pairs(run.more["settings"])))
    return found


def rejects(tables: Tables) -> Grid | None:
    """Lines that could not be read."""
    rows = select(tables, "rejects")
    return grid(rows, "rejects") if rows else None
