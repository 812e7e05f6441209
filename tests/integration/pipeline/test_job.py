"""Whole analyses of made-up runs whose answers are known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from stafette.errors import InvalidRequest
from stafette.pipeline.job import Analysis
from stafette.pipeline.options import Options
from stafette.report import result_files, result_tables
from tests.support import synthetic_runs
from tests.support.spark_frames import analyzed_runs

LENGTH_MS = {"low": 2.0, "high": 6.0}
MEAN_OF_ALL = ("mean_ms", "all")


def steady(run: str, response_ms: float, *, clients: int = 10, seconds: float = 12.0, shift: float = 0.0) -> pa.Table:
    """Requests that all take the same time, one after another at each client."""
    count = int(clients * seconds * 1000 / response_ms)
    rows = synthetic_runs.requests(count, run=run, clients=clients, think_time_s=0.0)
    client = np.array(rows["tier"].to_pylist()) == "client"
    number = np.concatenate([np.arange(n) for n in (client.sum(), (~client).sum())]) // clients
    length = round((response_ms + shift) * synthetic_runs.MILLISECOND)
    start = synthetic_runs.BEGIN + number * round(response_ms * synthetic_runs.MILLISECOND)
    begin = start + np.where(client, 0, length // 4)
    end = start + np.where(client, length, length // 4 + length // 2)
    for name, values in (("intended_ns", begin), ("start_ns", begin), ("end_ns", end)):
        rows = rows.set_column(rows.schema.get_field_index(name), name, pa.array(values))
    return rows


def analysed(spark: SparkSession, folder: Path, options: Options | None = None) -> Analysis:
    return analyzed_runs(spark, folder, out=folder / "analysis", options=options)


@pytest.fixture(scope="module")
def single(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    folder = tmp_path_factory.mktemp("single")
    rows = steady(synthetic_runs.RUN, 2.0, seconds=60.0, clients=3)
    synthetic_runs.make_run(folder / "run", rows, warm_up=5.0, cool_down=2.0, clients=3, think_time_s=0.0)
    return analysed(spark, folder)


def test_a_single_run(single: Analysis) -> None:
    whole = next(
        row for row in single.tables["summary"].to_pylist() if (row["tier"], row["operation"]) == ("client", "all")
    )
    assert whole["p50_ms"] == whole["p99_9_ms"] == whole["max_ms"] == 2.0
    assert whole["mean_ms"] == pytest.approx(2.0)
    assert whole["stddev_ms"] == pytest.approx(0.0, abs=1e-6)
    little = next(row for row in single.tables["laws"].to_pylist() if row["law"] == "little")
    assert little["ok"]
    assert little["ratio"] == pytest.approx(1.0, abs=0.01)
    warm_up = single.tables["warm_up"].to_pylist()[0]
    assert warm_up["given_s"] == pytest.approx(5.0)
    assert {row["stationary"] for row in single.tables["stationarity"].to_pylist()} == {True}
    busy = next(row for row in single.tables["laws"].to_pylist() if row["law"] == "utilisation of broker")
    assert busy["found"] == pytest.approx(1.0)
    assert {row["model"] for row in single.tables["models"].to_pylist()} >= {"mva", "bounds"}


def test_what_is_written_is_what_was_found(single: Analysis) -> None:
    assert single.out is not None
    loaded = result_files.load(single.out)
    assert loaded.keys() == result_tables.TABLES.keys() == single.tables.keys()
    for name, table in single.tables.items():
        assert loaded[name].equals(table), name
        assert loaded[name].schema.equals(result_tables.TABLES[name]), name
        assert (single.out / "csv" / f"{name}.csv").is_file()
    objects = json.loads((single.out / "summary.json").read_text())
    assert len(objects) == single.tables["summary"].num_rows
    for one in objects:
        assert tuple(one) == (
            "run", "tier", "operation", "outcome", "count", "mean_ms", "stddev_ms", "mean_interval_ms", "interval",
            "p50_ms", "p95_ms", "p99_ms", "max_ms", "throughput_per_s", "throughput_interval_per_s",
        )  # fmt: skip
        for name in ("mean_interval_ms", "throughput_interval_per_s"):
            assert one[name] is None or len(one[name]) == 2
        assert one["interval"].keys() >= {"kind", "level", "n"}
    facts = result_files.load_metadata(single.out)
    assert facts["rows"] == sum(row["client_rows"] + row["broker_rows"] for row in single.tables["joins"].to_pylist())
    assert facts["seconds"].keys() == {"read", "aggregate", "samples", "model"}
    assert not list(single.out.glob(".unfinished*"))


def test_results_of_an_earlier_analysis_are_replaced(single: Analysis, tmp_path: Path) -> None:
    result_files.write(tmp_path, single.tables, single.facts)
    fewer = dict(single.tables) | {"windows": result_tables.TABLES["windows"].empty_table()}
    result_files.write(tmp_path, fewer, single.facts)
    assert result_files.load(tmp_path)["windows"].num_rows == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["csv", "facts.json", "summary.json", "tables"]


def test_a_sweep_with_repetitions(spark: SparkSession, tmp_path: Path) -> None:
    for clients in (2, 4, 8):
        for repetition in (1, 2):
            run = f"made-0001/{clients}-r{repetition}"
            rows = steady(run, 2.0, clients=clients, seconds=2.0, shift=0.5 * repetition - 0.75)
            synthetic_runs.make_run(
                tmp_path / run, rows, label=f"clients={clients}", levels={"clients": clients}, repetition=repetition,
                clients=clients, think_time_s=0.0, design="sweep",
            )  # fmt: skip
    found = analysed(spark, tmp_path)
    points = [row for row in found.tables["points"].to_pylist() if (row["metric"], row["operation"]) == MEAN_OF_ALL]
    assert [(row["label"], row["repetitions"]) for row in points] == [(f"clients={n}", 2) for n in (2, 4, 8)]
    for row in points:
        assert row["mean"] == pytest.approx(2.0)  # of 1.75 and 2.25: t(1) = 12.706 times 0.25
        assert row["high"] - row["mean"] == pytest.approx(12.7062 * 0.25, rel=1e-4)
    curve = [row for row in found.tables["curves"].to_pylist() if row["metric"] == "throughput"]
    assert {(row["factor"], row["level"]) for row in curve} == {("clients", level) for level in ("2", "4", "8")}
    assert {(row["operation"], row["outcome"]) for row in curve} == {
        (row["operation"], row["outcome"])
        for row in found.tables["summary"].to_pylist()
        if row["tier"] == "client" and row["outcome"] in ("ok", "empty", "answered")
    }
    assert {row["model"] for row in found.tables["models"].to_pylist()} >= {"usl", "mva", "bounds"}


def test_a_2k_design(spark: SparkSession, tmp_path: Path) -> None:
    for size in ("low", "high"):
        for brokers in (1, 2):
            for repetition in (1, 2):
                run = f"made-0001/{size}-{brokers}-r{repetition}"
                rows = steady(run, LENGTH_MS[size] + brokers, clients=2, seconds=2.0)
                levels = {"size": size, "brokers": brokers}
                synthetic_runs.make_run(
                    tmp_path / run, rows, label=f"size={size},brokers={brokers}", levels=levels, repetition=repetition,
                    clients=2, think_time_s=0.0, design="2k", samples=False,
                )  # fmt: skip
    found = analysed(spark, tmp_path)
    effects = {row["effect"]: row for row in found.tables["effects"].to_pylist() if row["metric"] == "mean_ms"}
    # words sort: "high" is -1 and "low" +1; the mean is of 2 + 1, 2 + 2, 6 + 1 and 6 + 2
    assert effects["mean"]["value"] == pytest.approx(5.5)
    assert effects["size"]["value"] == pytest.approx(-2.0)
    assert effects["brokers"]["value"] == pytest.approx(0.5)
    assert effects["size:brokers"]["value"] == pytest.approx(0.0, abs=1e-9)
    assert effects["size"]["variation_percent"] == pytest.approx(100 * 4 / 4.25)
    assert any("samples" in note for note in found.facts["notes"])


def test_a_warm_up_may_be_given_or_found(spark: SparkSession, tmp_path: Path) -> None:
    rows = steady(synthetic_runs.RUN, 2.0, seconds=12.0, clients=3)
    slow = np.array(rows["intended_ns"].to_pylist()) < synthetic_runs.BEGIN + 2 * synthetic_runs.SECOND
    end = np.array(rows["end_ns"].to_pylist()) + np.where(slow, 5 * synthetic_runs.MILLISECOND, 0)
    rows = rows.set_column(rows.schema.get_field_index("end_ns"), "end_ns", pa.array(end))
    synthetic_runs.make_run(tmp_path / "run", rows, clients=3)

    def mean_ms(warm_up: float | Literal["auto"] | None) -> float:
        found = analysed(spark, tmp_path, Options(window_s=0.2, warm_up=warm_up)).tables["summary"].to_pylist()
        [whole] = [row for row in found if (row["tier"], row["operation"]) == ("client", "all")]
        return float(whole["mean_ms"])

    assert mean_ms(None) > 2.5
    assert mean_ms(2.0) == mean_ms("auto") == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"window_s": 0.0}, "a window of 0 s cannot be"),
        ({"level": 1.0}, "a level of confidence of 1"),
        ({"warm_up": -1.0}, "a warm-up of -1 s cannot be"),
        ({"warm_up": float("nan")}, "a warm-up of nan s cannot be"),
        ({"warm_up": float("inf")}, "a warm-up of inf s cannot be"),
        ({"limits_ms": (float("nan"),)}, "a limit of nan ms cannot be"),
        ({"limits_ms": (float("inf"),)}, "a limit of inf ms cannot be"),
        ({"limits_ms": (0.0005,)}, "give whole microseconds"),
    ],
)
def test_options_that_cannot_be(wrong: dict[str, object], told: str) -> None:
    with pytest.raises(InvalidRequest, match=told):
        Options(**wrong)  # type: ignore[arg-type]


def test_effects_of_runs_with_different_factors_are_refused_and_the_rest_is_there(
    spark: SparkSession, tmp_path: Path
) -> None:
    for series, levels in (("made-0001", {"a": 1}), ("made-0002", {"a": 2, "b": 1})):
        run = f"{series}/1"
        rows = steady(run, 2.0, clients=2, seconds=2.0)
        synthetic_runs.make_run(tmp_path / run, rows, label=series, levels=levels, clients=2, design="2k")

    analysis = analysed(spark, tmp_path)

    assert analysis.tables["effects"].num_rows == 0
    assert "effects of made: its runs have different factors; analyse each series alone" in analysis.facts["notes"]
    assert {row["label"] for row in analysis.tables["points"].to_pylist()} == {"made-0001", "made-0002"}


def test_a_warm_up_longer_than_the_load_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    synthetic_runs.make_run(tmp_path / "run", steady(synthetic_runs.RUN, 2.0, seconds=1.0, clients=2), clients=2)
    with pytest.raises(InvalidRequest, match="as long as its load"):
        analysed(spark, tmp_path, Options(warm_up=100.0))
