"""``run.json`` for the pipeline: parsed from its text, which may come from another file system."""

from __future__ import annotations

from stafette.errors import InvalidRequest
from stafette.pipeline.sources.base import Run
from stafette.runs.closed_loop import client_counts, closed_loop, mean_think_time_s
from stafette.runs.records import RunOutline, outline

DONE = "done"


def run_of(text: str, folder: str) -> Run:
    """The run of a record."""
    try:
        return _run(outline(text), folder)
    except (ValueError, TypeError, AttributeError) as error:
        raise InvalidRequest(f"is not a record of a run: {error}") from error
    except KeyError as error:
        raise InvalidRequest(f"is not a record of a run: it has no {error.args[0]}") from error


def _run(record: RunOutline, folder: str) -> Run:
    return Run(
        run=record.id,
        experiment=record.experiment,
        label=record.label,
        levels=record.levels,
        repetition=record.repetition,
        design=record.design,
        state=record.state,
        why=record.why,
        load=record.load,
        window=record.window,
        valid=record.verdict.valid if record.verdict else None,
        sentences=tuple(record.verdict.sentences) if record.verdict else (),
        clients=client_counts(record.settings),
        think_time_s=mean_think_time_s(record.settings),
        closed_loop=record.closed_loop or closed_loop(record.settings),
        brokers=record.settings.get("system", {}).get("brokers"),
        settings=record.settings,
        folder=folder,
    )
