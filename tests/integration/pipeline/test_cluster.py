"""The same tables from a standalone cluster and through Spark Connect as on this machine alone."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from stafette.report import result_files, result_tables
from tests.support.java_options import SHORT_LIVED
from tests.support.spark_frames import analyzed_runs
from tests.support.spark_processes import analyze, conf, server
from tests.support.synthetic_runs import make_run, requests

pytestmark = pytest.mark.slow

MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"


def analyzed(runs: Path, out: Path, *options: str) -> Path:
    done = analyze(str(runs), "--out", str(out), "--json", *options)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads((out / "summary.json").read_text())
    assert "<h1" in (out / "report.html").read_text()
    return out


def told(out: Path) -> dict[str, list[dict[str, Any]]]:
    """All tables, their rows in an order of their own."""
    return {
        name: sorted(
            (_rounded(row) for row in table.to_pylist()), key=lambda row: [str(value) for value in row.values()]
        )
        for name, table in result_files.load(out).items()
    }


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    """Sums of fractions depend on their order, in the last digits."""
    return {name: float(f"{value:.9g}") if isinstance(value, float) else value for name, value in row.items()}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for seed in (1, 2):
        name = f"made-0001/{seed:03d}-single-r{seed}"
        make_run(folder / name.replace("/", "/runs/"), requests(20_000, seed=seed, run=name), run=name)
    return folder


@pytest.fixture(scope="module")
def here(spark: SparkSession, runs: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    out = tmp_path_factory.mktemp("here") / "out"
    analyzed_runs(spark, str(runs), out=out)
    found = told(out)
    assert len(found["summary"]) > 4
    return found


def test_the_summary_has_the_documented_keys(here: dict[str, Any]) -> None:
    assert here["summary"][0].keys() >= set(result_tables.SUMMARY_KEYS) - {"ci95_ms"}
    assert result_tables.SUMMARY_KEYS == (
        "run", "tier", "operation", "outcome", "count", "mean_ms", "stddev_ms", "p50_ms", "p95_ms", "p99_ms", "max_ms",
        "throughput_per_s", "ci95_ms",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("/nowhere",), "there is no folder /nowhere"),
        ((".", "--source", "csv"), "--mapping and --source csv need each other"),
        ((".", "--conf", "x"), "'x' is not KEY=VALUE"),
        ((".", "--limits", "1,x"), "'x' is not a number"),
        ((".", "--window", "0"), "a window of 0 s cannot be"),
        (("hdfs://head/lab",), "choose a local folder with --out"),
        ((".", "--follow", "--source", "mlmq"), "--follow needs exactly one folder"),
        ((".", "--master", "local", "--remote", "sc://head"), "--master and --remote exclude each other"),
    ],
)
def test_what_cannot_be_is_said_before_spark_starts(arguments: tuple[str, ...], says: str) -> None:
    done = analyze(*arguments)
    assert (done.returncode, done.stdout) == (1, "")
    [sentence] = done.stderr.splitlines()
    assert says in sentence


def test_a_standalone_cluster_with_two_workers(runs: Path, here: dict[str, Any], tmp_path: Path) -> None:
    with ExitStack() as running:
        start = [MASTER, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        url = running.enter_context(server(tmp_path, "spark-class", *start, says=r"Starting Spark master at (\S+)"))
        for _ in range(2):
            worker = [WORKER, "--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", "1g", url]
            running.enter_context(server(tmp_path, "spark-class", *worker, says="(registered) with master"))
        settings = [
            "spark.driver.host=127.0.0.1", "spark.executor.memory=600m", "spark.sql.shuffle.partitions=2",
            f"spark.executor.extraJavaOptions={SHORT_LIVED}",
        ]  # fmt: skip
        out = analyzed(runs, tmp_path / "out", "--master", url, *conf(*settings))
    assert told(out) == here


def test_spark_connect(runs: Path, here: dict[str, Any], spark_connect: str, tmp_path: Path) -> None:
    assert told(analyzed(runs, tmp_path / "out", "--remote", spark_connect)) == here
