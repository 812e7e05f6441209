"""Made result tables with the columns of the contract: a single run, a sweep with repetitions, a 2k design.

Values are drawn from formulas that a test can repeat, so figures can be checked against them.
"""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from stafette.report import result_tables

Tables = dict[str, pa.Table]
Facts = dict[str, Any]

HOSTILE = "<script>alert(1)</script>"
SECOND = 1_000_000_000
START = 1_763_200_000 * SECOND
WARM_UP, WINDOW, COOL_DOWN = 5, 40, 5
LOAD = WARM_UP + WINDOW + COOL_DOWN
STEADY_FROM = 3.0
LIMITS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)
RATIO = 10**0.1
"""Upper edge of a bin over its lower one."""
LEVEL, BATCHES = 0.95, 20
NO_INTERVAL = "even 5 batches are correlated"
"""Why rows of requests that found nothing have no interval."""

OWN_PHASES = {"client_queue": 0.01, "client_encode": 0.04, "client_read": 0.06}
BROKER_PHASES = {
    "read": 0.04, "decode": 0.02, "queue": 0.22, "database": 0.38, "parked": 0.0, "encode": 0.03, "write": 0.03,
}  # fmt: skip
"""Shares of the response time. The network's has the write, which overlaps it."""
NETWORK = 1 - sum(OWN_PHASES.values()) - sum(BROKER_PHASES.values()) + BROKER_PHASES["write"]
PHASES = {**OWN_PHASES, "network": NETWORK, **BROKER_PHASES}

OPERATIONS: dict[tuple[str, str], tuple[float, float]] = {
    ("send", "ok"): (900.0, 8.0),
    ("receive", "ok"): (850.0, 11.0),
    ("receive", "empty"): (50.0, 5.0),
    ("peek", "ok"): (120.0, 4.0),
}
"""Answers per second and median in milliseconds."""
SIGMA = 0.5


def percentile(median: float, z: float) -> float:
    return median * math.exp(SIGMA * z)


Z = {"p2_5_ms": -1.96, "p50_ms": 0.0, "p90_ms": 1.2816, "p95_ms": 1.6449, "p97_5_ms": 1.96, "p99_ms": 2.3263,
     "p99_9_ms": 3.0902, "max_ms": 4.2}  # fmt: skip


def mean_of(median: float) -> float:
    return median * math.exp(SIGMA**2 / 2)


def slowness(second: int) -> float:
    """How much slower than later a request is while the system warms up."""
    return 1 + 1.5 * math.exp(-second / 1.5)


def _summary(run: str, tier: str, operation: str, outcome: str, rate: float, median: float) -> dict[str, Any]:
    mean = mean_of(median)
    steady = outcome in {"ok", "answered"}
    interval = {
        "mean_low_ms": mean * 0.97, "mean_high_ms": mean * 1.03, "throughput_low": rate * 0.99,
        "throughput_high": rate * 1.01, "interval_kind": "batches", "interval_level": LEVEL, "interval_n": BATCHES,
    }  # fmt: skip
    return {
        "run": run, "tier": tier, "operation": operation, "outcome": outcome, "count": int(rate * WINDOW),
        "mean_ms": mean, "stddev_ms": 0.53 * mean, **{name: percentile(median, z) for name, z in Z.items()},
        "throughput_per_s": rate, "throughput_stddev": rate * 0.05,
        **(interval if steady else dict.fromkeys(interval)), "interval_reason": None if steady else NO_INTERVAL,
        "bytes": int(rate * WINDOW * 300), "messages": int(rate * WINDOW),
    }  # fmt: skip


def _windows(run: str, operation: str, outcome: str, rate: float, median: float, noise: Any) -> list[dict[str, Any]]:
    rows = []
    for second in range(LOAD):
        slow = slowness(second) + 0.05 * noise.standard_normal()
        middle, throughput = median * slow, rate / slow
        measured = WARM_UP <= second < WARM_UP + WINDOW
        count = int(throughput)
        rows.append(
            {"run": run, "tier": "client", "operation": operation, "outcome": outcome, "second": float(second),
             "seconds": 1.0, "count": count, "throughput_per_s": throughput, "mean_ms": middle * 1.13,
             **{name: percentile(middle, Z[name]) for name in ("p50_ms", "p95_ms", "p99_ms", "max_ms")},
             "measured_count": count * measured, "measured_total_ms": count * middle * 1.13 * measured,
             "measured_answers": count * measured, "measured_seconds": float(measured)}
        )  # fmt: skip
    return rows


def _breakdown(run: str, operation: str, outcome: str, rate: float, median: float) -> dict[str, Any]:
    mean = mean_of(median)
    phases = {f"{name}_ms": share * mean for name, share in (BROKER_PHASES | OWN_PHASES).items()}
    return {"run": run, "operation": operation, "outcome": outcome, "count": int(rate * WINDOW), "client_ms": mean,
            **phases, "unexplained_ms": NETWORK * mean}  # fmt: skip


def _phases(run: str, operation: str, outcome: str, rate: float, median: float) -> list[dict[str, Any]]:
    return [
        {"run": run, "operation": operation, "outcome": outcome, "phase": phase, "count": int(rate * WINDOW),
         "mean_ms": share * mean_of(median), "stddev_ms": 0.53 * share * mean_of(median),
         **{name: share * percentile(median, z) for name, z in Z.items()}}
        for phase, share in PHASES.items()
    ]  # fmt: skip


def _phase_windows(run: str, rate: float, median: float) -> list[dict[str, Any]]:
    return [
        {"run": run, "phase": phase, "second": float(second), "count": int(rate / slowness(second)),
         "mean_ms": share * mean_of(median) * slowness(second)}
        for second in range(LOAD)
        for phase, share in PHASES.items()
    ]  # fmt: skip


def _distribution(run: str, operation: str, outcome: str, rate: float, median: float) -> list[dict[str, Any]]:
    rows = []
    for index in range(-10, 31):
        low, high = RATIO**index, RATIO ** (index + 1)
        below, above = (_normal(math.log(edge / median) / SIGMA) for edge in (low, high))
        count = round(rate * WINDOW * (above - below))
        if count:
            rows.append({"run": run, "operation": operation, "outcome": outcome, "low_ms": low, "high_ms": high,
                         "count": count})  # fmt: skip
    return rows


def _normal(z: float) -> float:
    return (1 + math.erf(z / math.sqrt(2))) / 2


def one_run(
    run: str = "ftab-1-0001/001-single-r1", *, rate: float = 1.0, slow: float = 1.0, queues: int = 3, seed: int = 1,
    names: dict[tuple[str, str], tuple[float, float]] | None = None,
) -> Tables:  # fmt: skip
    """The tables that belong to one run; rate and slow scale its throughput and its response times."""
    noise = np.random.default_rng(seed)
    ops = {key: (r * rate, m * slow) for key, (r, m) in (names or OPERATIONS).items()}
    total = sum(r for r, _ in ops.values())
    middle = sum(r * m for r, m in ops.values()) / total
    answered = {**ops, ("all", "answered"): (total, middle)}
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in PER_RUN}
    for (operation, outcome), (r, m) in answered.items():
        rows["summary"].append(_summary(run, "client", operation, outcome, r, m))
        rows["summary"].append(_summary(run, "broker", operation, outcome, r, m * 0.72))
        rows["windows"] += _windows(run, operation, outcome, r, m, noise)
        for limit in LIMITS:
            share = _normal(math.log(limit / m) / SIGMA)
            rows["shares"].append({"run": run, "tier": "client", "operation": operation, "outcome": outcome,
                                   "limit_ms": limit, "share": share})  # fmt: skip
    for (operation, outcome), (r, m) in ops.items():
        rows["breakdown"].append(_breakdown(run, operation, outcome, r, m))
        rows["distribution"] += _distribution(run, operation, outcome, r, m)
        rows["phases"] += _phases(run, operation, outcome, r, m)
    rows["phase_windows"] = _phase_windows(run, total, middle)
    sent = int(total * LOAD)
    rows["joins"] = [{"run": run, "client_rows": sent, "broker_rows": sent, "joined": sent, "client_only": 0,
                      "broker_only": 0, "never_sent": 0}]  # fmt: skip
    for second in range(LOAD):
        for queue in range(queues):
            rows["queues"].append({"run": run, "second": float(second), "queue": f"q{queue}",
                                   "messages": int(40 * (queue + 1) + 20 * math.sin(second / 6 + queue))})  # fmt: skip
        for process, share in (("broker-1", 0.71), ("load-1", 0.48), ("postgres", 0.62)):
            rows["costs"].append({"run": run, "second": float(second), "process": process, "resident_bytes": 80_000_000,
                                  "cpu_share": max(0.0, share + 0.04 * noise.standard_normal())})  # fmt: skip
    rows["laws"] = [
        {"run": run, "law": "Little", "expected": 50.0, "found": 49.2, "ratio": 0.984, "ok": True,
         "sentence": "50 clients, and throughput times response and think time gives 49.2"},
        {"run": run, "law": "utilisation", "expected": 0.70, "found": 0.71, "ratio": 1.014, "ok": True,
         "sentence": "the broker used 0.71 of a core, its service times add up to 0.70"},
    ]  # fmt: skip
    rows["warm_up"] = [{"run": run, "given_s": float(WARM_UP), "found_s": STEADY_FROM,
                        "sentence": "the mean is steady from 3 s; 5 s were given, which is enough"}]  # fmt: skip
    rows["stationarity"] = [{"run": run, "metric": "throughput", "statistic": 0.8, "p_value": 0.42, "stationary": True,
                             "sentence": "throughput shows no trend (p = 0.42)"}]  # fmt: skip
    return {name: table(name, rows_of) for name, rows_of in rows.items()}


PER_RUN = ("summary", "shares", "windows", "breakdown", "joins", "distribution", "phases", "phase_windows",
           "queues", "costs", "laws", "warm_up", "stationarity")  # fmt: skip


def table(name: str, rows: list[dict[str, Any]]) -> pa.Table:
    """With the columns that the job's tables have, and no others."""
    return result_tables.table(name, rows)


def run_entry(run: str, experiment: str, label: str, levels: dict[str, Any], repetition: int = 1) -> dict[str, Any]:
    return {
        "run": run, "experiment": experiment, "label": label, "levels": levels, "repetition": repetition,
        "design": "single", "valid": True, "sentences": [], "clients": {"larry": 50}, "think_time_s": 0.0, "brokers": 1,
        "load": {"start_ns": START, "end_ns": START + LOAD * SECOND},
        "window": {"start_ns": START + WARM_UP * SECOND, "end_ns": START + (WARM_UP + WINDOW) * SECOND},
        "seed": 7, "settings": {"brokers": 1, "clients": {"larry": {"count": 50, "behaviour": "larry"}}},
        "folder": "runs/001-single-r1",
        "machines": [{"name": "local", "address": "127.0.0.1", "clock_before": {"offset_ns": 1500, "error_ns": 800},
                      "facts": {"host": "lab", "system": "Linux", "machine": "x86_64", "cores": 2,
                                "memory_bytes": 8_000_000_000, "python": "3.12"}}],
        "thresholds": [{"metric": "p99_ms", "threshold": "< 50", "value": 25.6, "ok": True}],
    }  # fmt: skip


def facts(runs: list[dict[str, Any]], **more: Any) -> Facts:
    return {
        "runs": runs, "versions": {"stafette": "0.1.0", "spark": "4.3.0", "python": "3.12.4"},
        "rows": 192_000, "rejected": 0, "notes": [],
        "seconds": {"read": 2.1, "count": 4.2}, "options": {"level": LEVEL, "window_s": 1.0}, **more,
    }  # fmt: skip


def single() -> tuple[Tables, Facts]:
    """One run: no repetitions, so no points, curves, effects or models."""
    run = "ftab-1-0001/001-single-r1"
    return one_run(run), facts([run_entry(run, "ftab-1", "single", {})])


def merged(parts: list[Tables]) -> Tables:
    return {name: pa.concat_tables(part[name] for part in parts) for name in parts[0]}


def capacity(clients: int) -> tuple[float, float]:
    """Throughput as a share of one run's, and how much slower it answers, of so many clients."""
    rate = clients / (1 + 0.04 * (clients - 1) + 0.0006 * clients * (clients - 1)) / 10
    return rate, clients / rate / 60


SWEEP_CLIENTS = (1, 2, 4, 8, 16, 32, 64)
SERIES = {("all", "answered"): (1.0, 1.0), ("send", "ok"): (0.5, 0.9), ("receive", "ok"): (0.4, 1.2)}
"""Of operations at the points of an experiment: share of the throughput, and response time over that of all."""


def _points(
    experiment: str, levels: dict[str, Any], values: dict[str, float], repetitions: int, half_width: float
) -> list[dict[str, Any]]:
    """A point's rows, from the values of all requests; a single repetition has no interval."""
    rows = []
    for (operation, outcome), (share, slow) in SERIES.items():
        for metric, value in values.items():
            mean = value * (share if metric == "throughput" else slow)
            half = half_width * (mean / value if value else 1.0)
            bounds = (mean - half, mean + half) if repetitions > 1 else (None, None)
            rows.append({"experiment": experiment, "label": label(levels), "levels": json.dumps(levels),
                         "operation": operation, "outcome": outcome, "repetitions": repetitions, "metric": metric,
                         "mean": mean, "stddev": None if repetitions == 1 else half / 2,
                         "low": bounds[0], "high": bounds[1]})  # fmt: skip
    return rows


def label(levels: dict[str, Any]) -> str:
    return ",".join(f"{name}={level}" for name, level in levels.items())


def _curves(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each metric against each factor, the other factors held."""
    rows = []
    for point in points:
        levels = json.loads(point["levels"])
        for factor, level in levels.items():
            others = {name: other for name, other in levels.items() if name != factor}
            names = ("experiment", "operation", "outcome", "metric", "mean", "stddev", "low", "high")
            rows.append({"factor": factor, "level": str(level), "other_levels": json.dumps(others),
                         **{name: point[name] for name in names}})  # fmt: skip
    return rows


def sweep(repetitions: int = 3, numbers: tuple[int, ...] = SWEEP_CLIENTS) -> tuple[Tables, Facts]:
    """Clients from 1 to 64, each point three times, with models; the last run is not valid and some lines were bad."""
    parts, entries, points = [], [], []
    for index, (clients, repetition) in enumerate(itertools.product(numbers, range(1, repetitions + 1)), start=1):
        run = f"asl15-clients-0001/{index:03d}-clients={clients}-r{repetition}"
        rate, slow = capacity(clients)
        parts.append(one_run(run, rate=rate, slow=slow, queues=12 if clients == 64 else 2, seed=index))
        entries.append(run_entry(run, "asl15-clients", f"clients={clients}", {"clients": clients}, repetition))
    entries[-1].update(valid=False, sentences=["load-1 used 0.97 of a core, the load generator was the bottleneck"])
    entries[-1]["thresholds"] = [{"metric": "p99_ms", "threshold": "< 50", "value": 81.5, "ok": False}]
    for clients in SWEEP_CLIENTS:
        rate, slow = capacity(clients)
        for metric, value in {"throughput": 1920 * rate, "mean_ms": 10.4 * slow, "p50_ms": 9.1 * slow,
                              "p95_ms": 20.8 * slow, "p99_ms": 29.2 * slow, "error_share": 0.0}.items():  # fmt: skip
            points += _points("asl15-clients", {"clients": clients}, {metric: value}, repetitions, 0.05 * value)
    tables = merged(parts)
    tables["points"], tables["curves"] = table("points", points), table("curves", _curves(points))
    tables["models"] = table("models", _models())
    tables["rejects"] = table("rejects", [
        {"file": "traces/client-load-1-9-00003.csv", "line": 17, "text": "12;x;", "reason": "the end is not a number"},
        {"file": "traces/client-load-1-9-00003.csv", "line": 18, "text": HOSTILE, "reason": "three fields, not four"},
    ])  # fmt: skip
    reasons = {"three fields, not four": 2_802, "the end is not a number": 50_000}
    tables["reject_reasons"] = table("reject_reasons", [{"reason": r, "count": n} for r, n in reasons.items()])
    return tables, facts(entries, rejected=sum(reasons.values()), left_out=[entries[-1]["run"]])


def _models() -> list[dict[str, Any]]:
    rows = []
    for clients in SWEEP_CLIENTS:
        rate, slow = capacity(clients)
        measured = {"throughput": 1920 * rate, "mean_ms": 10.4 * slow}
        predictions = {
            ("mva", "throughput"): (min(clients * 185.0, 2400 + 30 * math.log(clients)), None, None),
            ("mva", "mean_ms"): (max(5.0, clients / 2.5), None, None),
            ("usl", "throughput"): (1920 * rate * 1.02, 1920 * rate * 0.93, 1920 * rate * 1.09),
            ("bounds", "throughput"): (min(clients * 192.0, 2700.0), None, None),
            ("bounds", "mean_ms"): (max(5.2, clients / 2.7), None, None),
        }
        for (model, metric), (predicted, low, high) in predictions.items():
            rows.append({"experiment": "asl15-clients", "model": model, "x": float(clients), "metric": metric,
                         "measured": measured[metric], "predicted": predicted, "low": low, "high": high})  # fmt: skip
    return rows


EFFECTS = {"mean": 41.0, "A": 21.5, "B": 9.5, "A:B": 5.0, "C": -0.3, "A:C": 0.2, "B:C": -0.1, "A:B:C": 0.1}
FACTORS = {"A": ("brokers", (1, 2)), "B": ("connections", (8, 32)), "C": ("size", (200, 2000))}
SCALES = {"throughput": 1.0, "mean_ms": 0.2}
"""Of the effects on each metric."""


def two_k(repetitions: int = 3) -> tuple[Tables, Facts]:
    """A 2³ design whose effects are EFFECTS, for throughput and for the mean response time (a fifth of them)."""
    parts, entries, points = [], [], []
    corners = list(itertools.product((-1, 1), repeat=3))
    for index, (corner, repetition) in enumerate(itertools.product(corners, range(1, repetitions + 1)), start=1):
        levels = {name: values[(sign + 1) // 2] for (name, values), sign in zip(FACTORS.values(), corner, strict=True)}
        run = f"mlmq-2k-0001/{index:03d}-{label(levels)}-r{repetition}"
        parts.append(one_run(run, rate=response(corner) / 40, seed=index))
        entries.append({**run_entry(run, "mlmq-2k", label(levels), levels, repetition), "design": "2k"})
        if repetition == 1:
            for metric, scale in SCALES.items():
                points += _points("mlmq-2k", levels, {metric: response(corner) * scale}, repetitions, scale)
    tables = merged(parts)
    tables["points"], tables["curves"] = table("points", points), table("curves", _curves(points))
    tables["effects"] = table("effects", _effects())
    return tables, facts(entries)


def _effects() -> list[dict[str, Any]]:
    total = sum(value**2 for name, value in EFFECTS.items() if name != "mean") / 0.98
    names = {letter: name for letter, (name, _) in FACTORS.items()}
    rows = []
    for (series, (share, slow)), (metric, scale) in itertools.product(SERIES.items(), SCALES.items()):
        factor = scale * (share if metric == "throughput" else slow)
        group = {"experiment": "mlmq-2k", "operation": series[0], "outcome": series[1], "metric": metric}
        for effect, value in EFFECTS.items():
            words = ":".join(names.get(letter, letter) for letter in effect.split(":"))
            rows.append({**group, "effect": words, "value": value * factor, "low": (value - 1) * factor,
                         "high": (value + 1) * factor,
                         "variation_percent": None if effect == "mean" else 100 * value**2 / total})  # fmt: skip
        rows.append({**group, "effect": "error", "value": None, "low": None, "high": None, "variation_percent": 2.0})
    return rows


def response(corner: tuple[int, ...]) -> float:
    """What the effects give at a corner of the design."""
    signs = dict(zip(FACTORS, corner, strict=True))
    return sum(v * math.prod(signs[f] for f in name.split(":")) if name != "mean" else v for name, v in EFFECTS.items())


def hostile() -> tuple[Tables, Facts]:
    """A run whose every name is an attack on the page."""
    names = {(HOSTILE, "ok"): (900.0, 8.0), ("send", HOSTILE): (5.0, 30.0)}
    tables = one_run(HOSTILE, names=names)
    tables["queues"] = tables["queues"].set_column(2, "queue", pa.array([HOSTILE] * tables["queues"].num_rows))
    tables["laws"] = tables["laws"].set_column(6, "sentence", pa.array([HOSTILE] * tables["laws"].num_rows))
    tables["rejects"] = table("rejects", [{"file": HOSTILE, "line": 1, "text": HOSTILE, "reason": HOSTILE}])
    tables["reject_reasons"] = table("reject_reasons", [{"reason": HOSTILE, "count": 1}])
    reasons = pa.array([HOSTILE] * tables["summary"].num_rows)
    tables["summary"] = tables["summary"].set_column(
        tables["summary"].schema.get_field_index("interval_reason"), "interval_reason", reasons
    )
    entry = run_entry(HOSTILE, HOSTILE, HOSTILE, {HOSTILE: HOSTILE})
    entry.update(valid=False, sentences=[HOSTILE], settings={HOSTILE: HOSTILE})
    return tables, facts([entry], rejected=1, versions={HOSTILE: HOSTILE}, left_out=[HOSTILE])


def write(out: Path, tables: Tables, metadata: Facts) -> None:
    """As the job leaves them: OUT/tables/NAME/*.parquet and OUT/facts.json."""
    for name, content in tables.items():
        folder = out / "tables" / name
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(content, folder / "part-00000.parquet")
    (out / "facts.json").write_text(json.dumps(metadata))
