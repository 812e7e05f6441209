"""The numbers behind the charts over time; static/charts.js draws them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any

from stafette.database.views import HistoryPoint
from stafette.errors import InvalidRequest

Value = Callable[[HistoryPoint], float | None]


def _rate(name: str) -> Value:
    return lambda point: getattr(point, name) / point.span


def _mean_ms(total: str, count: str) -> Value:
    return lambda point: 1000 * getattr(point, total) / getattr(point, count) if getattr(point, count) else None


CHARTS: dict[str, tuple[str, dict[str, Value]]] = {
    "rates": ("messages/s", {"sent": _rate("sent"), "received": _rate("received")}),
    "depths": (
        "messages",
        {state: attrgetter(state) for state in ("ready", "delayed", "leased", "dead")},
    ),
    "requests": ("requests/s", {name: _rate(name) for name in ("requests", "failed", "refused")}),
    "times": (
        "ms",
        {
            "waiting for the database": _mean_ms("queue_seconds", "requests"),
            "in the database, per batch": _mean_ms("database_seconds", "batches"),
        },
    ),
    "batches": (
        "requests/batch",
        {"batch size": lambda point: point.requests / point.batches if point.batches else None},
    ),
}


def chart_data(chart: str, points: Sequence[HistoryPoint], since: datetime) -> dict[str, Any]:
    """The lines of a chart from `since` until now; missing values are gaps."""
    if chart not in CHARTS:
        raise InvalidRequest(f"there is no chart {chart}; choose one of {', '.join(CHARTS)}")
    unit, lines = CHARTS[chart]
    return {
        "unit": unit,
        "from": since.isoformat(),
        "to": datetime.now(UTC).isoformat(),
        "at": [point.at.isoformat() for point in points],
        "lines": [{"name": name, "values": [value(point) for point in points]} for name, value in lines.items()],
    }
