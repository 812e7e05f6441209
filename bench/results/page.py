"""docs/results.md: each experiment with its question, the report's result, ours, and whether the shape is the same."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from bench.results import pictures
from bench.results.evidence import Evidence
from bench.results.reports import REPORTS, Claim
from bench.results.shapes import Finding, level_text, number
from stafette.lab.experiment.experiment_file import Experiment
from stafette.report.figures.style import percent
from stafette.report.figures.table_rows import RunMetadata, by_series, select, series_name
from stafette.runs.outcomes import ALL
from stafette.runs.records import RunRecord

ORDER = ("ftab", "asl15", "mlmq", "telesto", "mepas")
SYSTEMS = {"ftab": "FTaB", "asl15": "ASL15", "mlmq": "mlmq", "telesto": "Telesto", "mepas": "mepas"}
IMAGES = "images/results"
NO_SHAPE = "the report gives none"
DIFFERENCES = (
    ("machines", "several: clients, middlewares and database apart, on a network", "one, whose cores all share"),
    (
        "database",
        "PostgreSQL 9, on rented or laboratory machines",
        "PostgreSQL 18, one virtual disk; sends are flushed",
    ),
    ("length of a run", "minutes to two hours", "6 to 60 seconds"),
    ("clients, brokers, connections", "up to 5,000, 8 and 100", "up to 500, 2 and 25"),
    ("middleware", "threads, each with a request and a connection", "one process that gathers requests into batches"),
)


@dataclass(frozen=True)
class Result:
    """An experiment, the claims of its report, and the findings here."""

    experiment: Experiment
    """With the values of the quick profile."""
    evidence: Evidence
    claims: Sequence[tuple[Claim, Finding]]

    @property
    def name(self) -> str:
        """The name of the experiment's file."""
        return self.experiment.name

    @property
    def verdicts(self) -> list[bool]:
        """Whether each claim of the report holds here, without those that were not measured."""
        return [finding.same for claim, finding in self.claims if claim.says and finding.same is not None]

    @property
    def shape(self) -> str:
        """Whether the shape is the same, as a text."""
        if not any(claim.says for claim, _ in self.claims):
            return NO_SHAPE
        if not self.verdicts:
            return "not measured"
        if all(self.verdicts):
            return "**yes**"
        return "**no**" if not any(self.verdicts) else f"**partly**: {sum(self.verdicts)} of {len(self.verdicts)}"


def judge(experiment: Experiment, evidence: Evidence) -> Result:
    """Compare the evidence with the claims of the report."""
    return Result(experiment, evidence, [(claim, claim.shape(evidence)) for claim in REPORTS[experiment.name]])


def sort_by_report(results: Sequence[Result]) -> list[Result]:
    """Results in the order of the reports."""
    return sorted(results, key=lambda result: (ORDER.index(_report(result)), result.name))


def drawings(results: Sequence[Result]) -> dict[str, go.Figure]:
    """All figures of the page, by the name of their file."""
    return {name: figure for result in results for name, _, figure in pictures.of(result.evidence)}


def page(results: Sequence[Result], record: RunRecord, rows: int) -> str:
    """The whole page."""
    lines = [*_opening(results, record, rows), *_overview(results), *_differences()]
    for report in ORDER:
        lines += ["", f"## {SYSTEMS[report]}"]
        for result in results:
            if _report(result) == report:
                lines += _section(result)
    return "\n".join(lines) + "\n"


def _report(result: Result) -> str:
    return result.name.partition("-")[0]


def _opening(results: Sequence[Result], record: RunRecord, rows: int) -> Iterator[str]:
    runs = [run for result in results for run in result.evidence.runs]
    valid = sum(run.valid is True for run in runs)
    verdicts = Counter(same for result in results for same in result.verdicts)
    without_shape = sum(result.shape == NO_SHAPE for result in results)
    machine = record.machines[0].facts
    yield "# The reports' experiments, repeated"
    yield from _paragraph(
        f"""Five reports made {len(results)} experiments with systems like this one. Here each is made again: the quick
        profile of every file in [experiments/](../experiments/README.md), run by the laboratory, analysed by the
        pipeline, and held against what the report found. `make results` makes this page again, plots and all."""
    )
    yield from _paragraph(
        f"""Of {sum(verdicts.values())} findings of the reports, {verdicts[True]} have the same shape here and
        {verdicts[False]} have not; {without_shape} of the {len(results)} experiments come without results to compare
        with. Behind it are {len(runs)} runs with {rows:,} trace records; {valid} of the runs are valid by
        [the laboratory's checks](laboratory.md#the-verdict), and the others are named where they count."""
    )
    yield from _paragraph(
        f"""One machine, {machine.cores} cores that it shares with others, {machine.memory_bytes / 2**30:.0f} GiB,
        PostgreSQL {record.database.get("server_version", "?").split(" ")[0]}, Python {record.python}: clients, brokers
        and database all on it. Runs last seconds where the reports' lasted minutes to hours. So absolute figures are
        of this machine, and what is compared is the shape: what grows, what stays, where it saturates, what explains
        most. A change of less than a fifth counts as none: one or two short runs per point do not tell finer."""
    )


def _paragraph(text: str) -> Iterator[str]:
    yield ""
    yield from textwrap.wrap(" ".join(text.split()), width=120, break_long_words=False, break_on_hyphens=False)


def _overview(results: Sequence[Result]) -> Iterator[str]:
    yield from ("", "## At a glance", "")
    yield "| experiment | question | what the report found | measured here | same shape? |"
    yield "|---|---|---|---|---|"
    for result in results:
        claims = "; ".join(claim.says for claim, _ in result.claims if claim.says) or "no figures"
        name, question = result.name, result.experiment.question
        yield f"| [{name}](#{name}) | {question} | {claims} | {_ranges(result)} | {result.shape} |"


def _ranges(result: Result) -> str:
    evidence, texts = result.evidence, []
    for metric, unit in (("throughput", "/s"), ("mean_ms", " ms")):
        values = [value for _, runs in evidence.points() if (value := evidence.over(runs, metric)) is not None]
        if values:
            low, high = number(min(values)), number(max(values))
            texts.append(f"{low}{unit}" if low == high else f"{low} to {high}{unit}")
    return ", ".join(texts) or "no run came to its end"


def _differences() -> Iterator[str]:
    yield from ("", "## What is different, in hardware and scale", "")
    yield "| | reports | here |"
    yield "|---|---|---|"
    for row in DIFFERENCES:
        yield f"| {' | '.join(row)} |"
    yield from _paragraph(
        """Two brokers on two cores that are busy already cannot show what two more machines would: where a report
        scaled out, a *no* here says nothing about its finding.
        [experiments/README.md](../experiments/README.md#what-is-different-here) has what differs file by file."""
    )


def _section(result: Result) -> Iterator[str]:
    experiment, evidence = result.experiment, result.evidence
    yield from ("", f"### {result.name}", "")
    source = f"{experiment.source}; [file](../experiments/{result.name}.toml)"
    yield f"**{experiment.title}.** {experiment.question} ({source})"
    yield ""
    yield f"*Theirs.* {experiment.original.strip()}"
    yield ""
    if not evidence.runs:
        yield "*Here.* No run came to its end."
        return
    points = list(evidence.points())
    yield (
        f"*Here.* {len(points)} {'point' if len(points) == 1 else 'points'} × {len(points[0][1])},"
        f" {experiment.run.duration:g} s measured of each."
    )
    yield ""
    yield from _operations(evidence) if evidence.design == "single" else _points(evidence, points)
    yield ""
    for claim, finding in result.claims:
        yield _finding(claim, finding)
    if invalid_runs := [run for run in evidence.runs if not run.valid]:
        yield ""
        yield f"Not valid are {len(invalid_runs)} of {len(evidence.runs)} runs: {_reasons(invalid_runs)}"
    yield ""
    for name, caption, _ in pictures.of(evidence):
        yield f"![{result.name}: {caption}]({IMAGES}/{name}.svg)"
        yield ""


def _finding(claim: Claim, finding: Finding) -> str:
    if not claim.says:
        return f"- {finding.detail[0].upper()}{finding.detail[1:]}."
    answer = {True: "yes", False: "no", None: "unknown"}[finding.same]
    reason = f" Probably because {claim.reason}." if finding.same is False and claim.reason else ""
    return f"- {claim.says[0].upper()}{claim.says[1:]}? **{answer}**: {finding.detail}.{reason}"


def _reasons(runs: Sequence[RunMetadata]) -> str:
    reasons = Counter(sentence.partition(":")[0] for run in runs for sentence in run.reasons[:1])
    return "; ".join(f"{count} × {reason}" for reason, count in reasons.most_common()) + "."


def _points(evidence: Evidence, points: Sequence[tuple[Mapping[str, Any], list[RunMetadata]]]) -> Iterator[str]:
    factors = list(points[0][0])
    yield f"| {' | '.join(factors)} | throughput/s | mean ms | p50 ms | p95 ms | p99 ms |"
    yield f"|{'---|' * len(factors)}{'---:|' * 5}"
    for levels, runs in points:
        cells = [level_text(levels[factor]) for factor in factors]
        cells += [_spread(evidence, runs, metric) for metric in ("throughput", "mean_ms", "p50_ms", "p95_ms", "p99_ms")]
        yield f"| {' | '.join(cells)} |"


def _spread(evidence: Evidence, runs: Sequence[RunMetadata], metric: str) -> str:
    """The mean over repetitions, with their minimum and maximum."""
    values = [value for run in runs if (value := evidence.value(run.run, metric)) is not None]
    if not values:
        return "–"
    mean = number(sum(values) / len(values))
    return mean if len(values) == 1 else f"{mean} ({number(min(values))}–{number(max(values))})"


def _operations(evidence: Evidence) -> Iterator[str]:
    rows = [row for row in select(evidence.tables, "summary", run=evidence.runs[0].run) if row["tier"] == "client"]
    levels = {percent(row["interval_level"]) for row in rows if row["interval_kind"] is not None}
    interval_head = f" ({', '.join(sorted(levels))})" if levels else ""
    yield (
        f"| operation | requests | throughput/s | mean ms{interval_head} | standard deviation"
        " | p50 ms | p95 ms | p99 ms |"
    )
    yield f"|---|{'---:|' * 7}"
    for (operation, outcome), group in by_series(rows).items():
        row = group[0]
        if row["mean_ms"] is None or operation == ALL:
            continue
        low, high = row["mean_low_ms"], row["mean_high_ms"]
        interval = "" if low is None or high is None else f" ({number(low)}–{number(high)})"
        cells = [series_name(operation, outcome), f"{row['count']:,}", number(row["throughput_per_s"])]
        cells += [number(row["mean_ms"]) + interval]
        cells += [
            "–" if row[name] is None else number(row[name]) for name in ("stddev_ms", "p50_ms", "p95_ms", "p99_ms")
        ]
        yield f"| {' | '.join(cells)} |"
