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
FOUND = 3.0
LIMITS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)
PHASES = ("read", "decode", "queue", "database", "parked", "encode", "write")
RATIO = 10**0.1

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


def _summary(run: str, tier: str, operation: str, outcome: str, rate: float, median: float) -> dict[str, Any]:
    mean = median * math.exp(SIGMA**2 / 2)
    return {
        "run": run, "tier": tier, "operation": operation, "outcome": outcome, "count": int(rate * WINDOW),
        "mean_ms": mean, "stddev_ms": 0.53 * mean, "mean_low_ms": mean * 0.995, "mean_high_ms": mean * 1.005,
        "stddev_low_ms": 0.52 * mean, "stddev_high_ms": 0.54 * mean, "batch_low_ms": mean * 0.97,
        "batch_high_ms": mean * 1.03, **{name: percentile(median, z) for name, z in Z.items()},
        "throughput_per_s": rate, "bytes": int(rate * WINDOW * 300), "messages": int(rate * WINDOW),
    }  # fmt: skip


def _windows(run: str, operation: str, outcome: str, rate: float, median: float, noise: Any) -> list[dict[str, Any]]:
    rows = []
    for second in range(LOAD):
        slow = 1 + 1.5 * math.exp(-second / 1.5) + 0.05 * noise.standard_normal()
        middle = median * slow
        found = rate / slow
        rows.append(
            {"run": run, "tier": "client", "operation": operation, "outcome": outcome, "second": float(second),
             "seconds": 1.0, "count": int(found), "throughput_per_s": found, "mean_ms": middle * 1.13,
             **{name: percentile(middle, Z[name]) for name in ("p50_ms", "p95_ms", "p99_ms", "max_ms")}}
        )  # fmt: skip
    return rows


def _breakdown(run: str, operation: str, outcome: str, rate: float, median: float) -> dict[str, Any]:
    mean = median * math.exp(SIGMA**2 / 2)
    shares = {
        "read": 0.04,
        "decode": 0.02,
        "queue": 0.22,
        "database": 0.38,
        "parked": 0.0,
        "encode": 0.03,
        "write": 0.03,
    }
    own = {"client_queue_ms": 0.01 * mean, "client_encode_ms": 0.04 * mean, "client_read_ms": 0.06 * mean}
    phases = {f"{name}_ms": share * mean for name, share in shares.items()}
    rest = mean - sum(phases.values()) - sum(own.values())
    return {"run": run, "operation": operation, "outcome": outcome, "count": int(rate * WINDOW), "client_ms": mean,
            **phases, **own, "unexplained_ms": rest}  # fmt: skip


def _distribution(run: str, operation: str, outcome: str, rate: float, median: float) -> list[dict[str, Any]]:
    rows = []
    for place in range(-10, 31):
        low = RATIO**place
        below, above = (_normal(math.log(edge / median) / SIGMA) for edge in (low, low * RATIO))
        count = round(rate * WINDOW * (above - below))
        if count:
            rows.append({"run": run, "operation": operation, "outcome": outcome, "bin_ms": low, "count": count})
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
    rows["warm_up"] = [{"run": run, "given_s": float(WARM_UP), "found_s": FOUND,
                        "sentence": "the mean is steady from 3 s; 5 s were given, which is enough"}]  # fmt: skip
    rows["stationarity"] = [{"run": run, "metric": "throughput", "statistic": 0.8, "p_value": 0.42, "stationary": True,
                             "sentence": "throughput shows no trend (p = 0.42)"}]  # fmt: skip
    return {name: table(name, found) for name, found in rows.items()}


PER_RUN = ("summary", "shares", "windows", "breakdown", "joins", "distribution", "queues", "costs", "laws", "warm_up",
           "stationarity")  # fmt: skip


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
        "seconds": {"read": 2.1, "count": 4.2}, "options": {"level": 0.95, "window_s": 1.0}, **more,
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


def sweep(repetitions: int = 3, numbers: tuple[int, ...] = SWEEP_CLIENTS) -> tuple[Tables, Facts]:
    """Clients from 1 to 64, each point three times, with models; the last run is not valid and some lines were bad."""
    parts, entries, points = [], [], []
    for place, (clients, again) in enumerate(itertools.product(numbers, range(1, repetitions + 1)), start=1):
        run = f"asl15-clients-0001/{place:03d}-clients={clients}-r{again}"
        rate, slow = capacity(clients)
        parts.append(one_run(run, rate=rate, slow=slow, queues=12 if clients == 64 else 2, seed=place))
        entries.append(run_entry(run, "asl15-clients", f"clients={clients}", {"clients": clients}, again))
    entries[-1].update(valid=False, sentences=["load-1 used 0.97 of a core, the load generator was the bottleneck"])
    entries[-1]["thresholds"] = [{"metric": "p99_ms", "threshold": "< 50", "value": 81.5, "ok": False}]
    for clients in SWEEP_CLIENTS:
        rate, slow = capacity(clients)
        for metric, value in (("throughput", 1920 * rate), ("mean_ms", 10.4 * slow), ("p50_ms", 9.1 * slow),
                              ("p95_ms", 20.8 * slow), ("p99_ms", 29.2 * slow), ("error_share", 0.0)):  # fmt: skip
            points.append({"experiment": "asl15-clients", "label": f"clients={clients}", "metric": metric,
                           "levels": json.dumps({"clients": clients}), "repetitions": repetitions, "mean": value,
                           "low": value * 0.95, "high": value * 1.05})  # fmt: skip
    curves = [
        {"experiment": "asl15-clients", "factor": "clients", "level": str(point["label"]).removeprefix("clients="),
         "other_levels": "{}", **{key: point[key] for key in ("metric", "mean", "low", "high")}}
        for point in points
    ]  # fmt: skip
    tables = merged(parts)
    tables["points"], tables["curves"] = table("points", points), table("curves", curves)
    tables["models"] = table("models", _models())
    tables["rejects"] = table("rejects", [
        {"file": "traces/client-load-1-9-00003.csv", "line": 17, "text": "12;x;", "reason": "the end is not a number"},
        {"file": "traces/client-load-1-9-00003.csv", "line": 18, "text": HOSTILE, "reason": "three fields, not four"},
    ])  # fmt: skip
    return tables, facts(entries, rejected=2)


def _models() -> list[dict[str, Any]]:
    rows = []
    for clients in SWEEP_CLIENTS:
        rate, slow = capacity(clients)
        found = {"throughput": 1920 * rate, "mean_ms": 10.4 * slow}
        said = {
            ("mva", "throughput"): (min(clients * 185.0, 2400 + 30 * math.log(clients)), None, None),
            ("mva", "mean_ms"): (max(5.0, clients / 2.5), None, None),
            ("usl", "throughput"): (1920 * rate * 1.02, 1920 * rate * 0.93, 1920 * rate * 1.09),
            ("bounds", "throughput"): (min(clients * 192.0, 2700.0), None, None),
            ("bounds", "mean_ms"): (max(5.2, clients / 2.7), None, None),
        }
        for (model, metric), (predicted, low, high) in said.items():
            rows.append({"experiment": "asl15-clients", "model": model, "x": float(clients), "metric": metric,
                         "measured": found[metric], "predicted": predicted, "low": low, "high": high})  # fmt: skip
    return rows


EFFECTS = {"mean": 41.0, "A": 21.5, "B": 9.5, "A:B": 5.0, "C": -0.3, "A:C": 0.2, "B:C": -0.1, "A:B:C": 0.1}
FACTORS = {"A": ("brokers", (1, 2)), "B": ("connections", (8, 32)), "C": ("size", (200, 2000))}


def two_k(repetitions: int = 3) -> tuple[Tables, Facts]:
    """A 2³ design whose effects are EFFECTS, for throughput and for the mean response time (a fifth of them)."""
    parts, entries, points, rows = [], [], [], []
    corners = list(itertools.product((-1, 1), repeat=3))
    for place, (corner, again) in enumerate(itertools.product(corners, range(1, repetitions + 1)), start=1):
        levels = {name: values[(sign + 1) // 2] for (name, values), sign in zip(FACTORS.values(), corner, strict=True)}
        label = ",".join(f"{name}={level}" for name, level in levels.items())
        run = f"mlmq-2k-0001/{place:03d}-{label}-r{again}"
        parts.append(one_run(run, rate=response(corner) / 40, seed=place))
        entries.append({**run_entry(run, "mlmq-2k", label, levels, again), "design": "2k"})
        if again == 1:
            for metric, scale in (("throughput", 1.0), ("mean_ms", 0.2)):
                value = response(corner) * scale
                points.append(
                    {
                        "experiment": "mlmq-2k",
                        "label": label,
                        "levels": json.dumps(levels),
                        "metric": metric,
                        "repetitions": repetitions,
                        "mean": value,
                        "low": value - scale,
                        "high": value + scale,
                    }
                )
    total = sum(value**2 for name, value in EFFECTS.items() if name != "mean") / 0.98
    names = {letter: name for letter, (name, _) in FACTORS.items()}
    for metric, scale in (("throughput", 1.0), ("mean_ms", 0.2)):
        for effect, value in EFFECTS.items():
            called = ":".join(names.get(letter, letter) for letter in effect.split(":"))
            rows.append({"experiment": "mlmq-2k", "metric": metric, "effect": called, "value": value * scale,
                         "low": (value - 1) * scale, "high": (value + 1) * scale,
                         "variation_percent": None if effect == "mean" else 100 * value**2 / total})  # fmt: skip
        rows.append(
            {
                "experiment": "mlmq-2k",
                "metric": metric,
                "effect": "error",
                "value": None,
                "low": None,
                "high": None,
                "variation_percent": 2.0,
            }
        )
    tables = merged(parts)
    tables["points"], tables["effects"] = table("points", points), table("effects", rows)
    return tables, facts(entries)


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
    entry = run_entry(HOSTILE, HOSTILE, HOSTILE, {HOSTILE: HOSTILE})
    entry.update(valid=False, sentences=[HOSTILE], settings={HOSTILE: HOSTILE})
    return tables, facts([entry], rejected=1, versions={HOSTILE: HOSTILE})


def write(out: Path, tables: Tables, found: Facts) -> None:
    """As the job leaves them: OUT/tables/NAME/*.parquet and OUT/facts.json."""
    for name, content in tables.items():
        folder = out / "tables" / name
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(content, folder / "part-00000.parquet")
    (out / "facts.json").write_text(json.dumps(found))
