"""``run.json``, as far as the pipeline asks; read from its text, so that we need nothing of the laboratory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from stafette.errors import InvalidRequest
from stafette.pipeline.sources.base import Run, Span

FORMAT = 1
"""Of the records that we can read."""
DONE = "done"


def run_of(text: str, folder: str) -> Run:
    """The run that a record is of."""
    try:
        told = json.loads(text)
        if told["format"] != FORMAT:
            raise InvalidRequest(f"is of format {told['format']}, this Stafette reads format {FORMAT}")
        return _run(told, folder)
    except (ValueError, TypeError, AttributeError) as error:
        raise InvalidRequest(f"is not a record of a run: {error}") from error
    except KeyError as error:
        raise InvalidRequest(f"is not a record of a run: it has no {error.args[0]}") from error


def _run(told: Mapping[str, Any], folder: str) -> Run:
    settings, verdict = told["settings"], told.get("verdict") or {}
    groups = settings.get("clients", {})
    return Run(
        run=str(told["id"]),
        experiment=str(told["experiment"]),
        label=str(told["label"]),
        levels=dict(told["levels"]),
        repetition=int(told["repetition"]),
        design=str(told.get("design", "single")),
        state=str(told["state"]),
        why=told.get("why"),
        load=_span(told.get("load")),
        window=_span(told.get("window")),
        valid=verdict.get("valid"),
        sentences=tuple(verdict.get("sentences", ())),
        clients={name: int(group["count"]) for name, group in groups.items()},
        think_time_s=_think_time(groups),
        brokers=settings.get("system", {}).get("brokers"),
        settings=settings,
        folder=folder,
    )


def _span(told: Mapping[str, int] | None) -> Span | None:
    return None if told is None else Span(int(told["start_ns"]), int(told["end_ns"]))


def _think_time(groups: Mapping[str, Mapping[str, Any]]) -> float | None:
    """Mean over all clients, when all of them think: in an open loop nobody does."""
    clients = sum(int(group["count"]) for group in groups.values())
    if not clients or any(group.get("rate") is not None for group in groups.values()):
        return None
    return sum(int(group["count"]) * _mean(group.get("think_time", 0.0)) for group in groups.values()) / clients


def _mean(distribution: float | Mapping[str, Any]) -> float:
    """Of a number that varies, as experiment files write it."""
    if not isinstance(distribution, Mapping):
        return float(distribution)
    ((kind, value),) = distribution.items()
    if kind in ("fixed", "exponential"):
        return float(value)
    if kind in ("uniform", "choice"):
        return sum(map(float, value)) / len(value)
    raise ValueError(f"there is no distribution {kind}")
