"""`stafette analyze`: from the traces of runs to tables, a summary and a report."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from stafette.cli.output import Json, say, show_json, show_lines, show_table
from stafette.errors import InvalidRequest
from stafette.runs.layout import ANALYSIS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from stafette.pipeline.job import Analysis
    from stafette.pipeline.options import Options

SUMMARY_COLUMNS = (
    "count",
    "mean_ms",
    "stddev_ms",
    "p50_ms",
    "p95_ms",
    "p99_ms",
    "max_ms",
    "throughput_per_s",
    "mean_interval_ms",
    "throughput_interval_per_s",
)
"""Columns of the printed summary, after those that name a row."""


class Kind(StrEnum):
    """The format of the traces."""

    NATIVE = "native"
    MLMQ = "mlmq"
    CSV = "csv"


def analyze(
    folders: Annotated[
        list[str],
        typer.Argument(
            help="Folders of runs or series, or folders above them; hdfs://… and other URLs, too.",
            metavar="RUN_FOLDER…",
        ),
    ],
    source: Annotated[Kind, typer.Option("--source", help="Format of the traces in the folders.")] = Kind.NATIVE,
    mapping: Annotated[
        Path | None, typer.Option("--mapping", help="File that maps columns to fields, for --source csv.")
    ] = None,
    master: Annotated[
        str | None, typer.Option("--master", help="Spark master; local[*] without --master and --remote.")
    ] = None,
    remote: Annotated[
        str | None, typer.Option("--remote", help="Spark Connect server, sc://HOST:PORT; default: $SPARK_REMOTE.")
    ] = None,
    conf: Annotated[list[str] | None, typer.Option("--conf", help="Spark setting, KEY=VALUE; repeatable.")] = None,
    out: Annotated[
        str | None,
        typer.Option("--out", help="Folder or URL for the results; default: `analysis` in the first folder."),
    ] = None,
    requests: Annotated[
        str | None,
        typer.Option(
            "--requests", help="Folder or URL where requests are kept; default: `requests` in the first folder."
        ),
    ] = None,
    window: Annotated[float, typer.Option("--window", help="Length of a window in seconds.")] = 1.0,
    limits: Annotated[
        str | None,
        typer.Option("--limits", help="Response times in ms, such as 10,50,100: prints the share below each."),
    ] = None,
    level: Annotated[float, typer.Option("--level", help="Confidence level.")] = 0.95,
    warm_up: Annotated[
        str | None, typer.Option("--warm-up", help="Seconds, or auto; default: as the run was defined.")
    ] = None,
    include_invalid: Annotated[
        bool, typer.Option("--include-invalid", help="Count runs that are not valid in points, curves and effects.")
    ] = False,
    follow: Annotated[bool, typer.Option("--follow", help="Show a run while it is measured, then analyse it.")] = False,
    as_json: Json = False,
) -> None:
    """Analyse runs with Spark: tables, summary and report.

    Example: stafette analyze runs/ftab-6-0001 --master spark://head:7077
    """
    _check_libraries()
    options = _options(window, limits, level, warm_up, include_invalid=include_invalid)
    _check_source(source, mapping, folders)
    target = out or f"{folders[0].rstrip('/')}/{ANALYSIS}"
    settings = dict(_setting(text) for text in conf or [])
    if follow and (len(folders) != 1 or source is not Kind.NATIVE):
        raise InvalidRequest("--follow needs exactly one folder, of a run of the laboratory")
    if master is not None and remote is not None:
        raise InvalidRequest("--master and --remote exclude each other; give one of them")
    say("starting Spark")
    from stafette.pipeline import input_size, job, session, store, upload
    from stafette.pipeline.sources import files, readers
    from stafette.report import page

    quick = not follow and input_size.is_small(folders)
    spark = session.start(master=master, remote=remote, conf=settings, quick=quick)
    try:
        if follow:
            _follow(spark, Path(folders[0]), window, as_json=as_json)
        read = readers.reader(source.value, folders, mapping)
        root = files.location(requests) if requests else store.default_root(folders[0], target)
        with upload.result_folder(spark, target) as folder:
            analysis = job.analyze(spark, read, requests=root, out=folder, options=options, progress=say)
            report = page.write(folder)
    finally:
        spark.stop()
    _show(analysis, f"{target.rstrip('/')}/{report.name}", as_json=as_json)


def report(folder: Path) -> Path:
    """Analyse a folder of runs with the default options; returns the path of the report."""
    _check_libraries()
    from stafette.pipeline import default_analysis

    return default_analysis.report(folder, say)


def _options(window: float, limits: str | None, level: float, warm_up: str | None, *, include_invalid: bool) -> Options:
    from stafette.pipeline.options import LIMITS_MS, Options

    limits_ms = LIMITS_MS if limits is None else tuple(_number(text, "--limits") for text in limits.split(","))
    warm_up_seconds: float | Literal["auto"] | None = None
    if warm_up is not None:
        warm_up_seconds = "auto" if warm_up == "auto" else _number(warm_up, "--warm-up")
    return Options(
        window_s=window, limits_ms=limits_ms, level=level, warm_up=warm_up_seconds, include_invalid=include_invalid
    )


def _number(text: str, option: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidRequest(f"{option}: {text!r} is not a number") from None


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InvalidRequest(f"--conf: {text!r} is not KEY=VALUE")
    return name, value


def _check_source(kind: Kind, mapping: Path | None, folders: Sequence[str]) -> None:
    if (mapping is not None) != (kind is Kind.CSV):
        raise InvalidRequest("--mapping and --source csv need each other; give both or neither")
    for folder in folders:
        if "://" not in folder and not Path(folder).exists():
            raise InvalidRequest(f"there is no folder {folder}")


def _follow(spark: SparkSession, folder: Path, window: float, *, as_json: bool) -> None:
    from stafette.pipeline import follow

    def show(rows: list[dict[str, Any]]) -> None:
        show_table(rows, as_json=as_json)
        sys.stdout.flush()

    follow.follow(spark, folder, window_s=window, show=show)


def _show(analysis: Analysis, report: str, *, as_json: bool) -> None:
    from stafette.report import result_files

    rows = result_files.summary_objects(analysis.tables["summary"])
    if as_json:
        show_json(rows)
        return
    show_lines(_verdicts(analysis.facts))
    several = len({row["run"] for row in rows}) > 1
    names = (*(("run",) if several else ()), "tier", "operation", "outcome")
    show_table([{name: _format_cell(row, name) for name in (*names, *SUMMARY_COLUMNS)} for row in rows], as_json=False)
    show_lines([report])


def _format_cell(row: Mapping[str, Any], name: str) -> Any:
    if name in {"mean_interval_ms", "throughput_interval_per_s"}:
        return None if row[name] is None else f"{row[name][0]:.4g} to {row[name][1]:.4g}"
    return row[name]


def _verdicts(metadata: Mapping[str, Any]) -> list[str]:
    """Lines about the validity of the runs, invalid ones first."""
    runs = metadata["runs"]
    verdicts = {True: "valid", False: "not valid", None: "without a verdict"}
    lines = [
        f"{run['run']}: {verdicts[run['valid']] if run['state'] == 'done' else run['state']}"
        + "".join(f"; {detail}" for detail in ([run["why"]] if run["why"] else run["sentences"]))
        for run in runs
        if run["state"] != "done" or run["valid"] is False
    ]
    valid = sum(run["valid"] is True and run["state"] == "done" for run in runs)
    noun = "run" if len(runs) == 1 else "runs"
    runs_valid = (
        f"{len(runs)} {noun} without a verdict"
        if all(run["valid"] is None for run in runs)
        else f"{valid} of {len(runs)} {noun} valid"
    )
    lines.append(f"{runs_valid}, {metadata['rows']:,} rows, {metadata['rejected']:,} rejected")
    return lines + list(metadata["notes"])


def _check_libraries() -> None:
    if importlib.util.find_spec("pyspark") is None:
        raise InvalidRequest("the analysis needs the laboratory's libraries; install stafette[lab]")
