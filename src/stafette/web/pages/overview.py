"""The first page: current state and recent activity of the whole system."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from stafette.web import health
from stafette.web.access import TheSite, Viewer
from stafette.web.charts import chart_data
from stafette.web.rendering import page

router = APIRouter()

SPANS = {"15m": (900, 10), "1h": (3600, 10), "6h": (6 * 3600, 60), "24h": (86400, 300), "7d": (7 * 86400, 3600),
         "30d": (30 * 86400, 4 * 3600)}  # fmt: skip
"""The spans of a chart: how far back, and the length of each point, in seconds."""
Span = Annotated[str, Query(pattern="^(" + "|".join(SPANS) + ")$")]


@router.get("/")
async def overview(request: Request, site: TheSite, _operator: Viewer, span: Span = "1h") -> Response:
    """Counts, health, charts, and the longest queues."""
    counts = await site.console.message_counts()
    longest, _ = await site.console.queues(order="ready", limit=10)
    recent = await site.console.history(since=datetime.now(UTC) - timedelta(seconds=60), span=10)
    values = {
        "counts": counts,
        "longest": [queue for queue in longest if queue.ready],
        "health": await health.run_checks(site, counts),
        "rates": _rates(recent),
        "span": span,
        "spans": list(SPANS),
    }
    return page(request, "overview.html", values)


@router.get("/charts/{chart}")
async def chart(chart: str, site: TheSite, _operator: Viewer, span: Span = "1h") -> dict[str, Any]:
    """The points of a chart, for the script that draws it."""
    seconds, step = SPANS[span]
    since = datetime.now(UTC) - timedelta(seconds=seconds)
    return chart_data(chart, await site.console.history(since=since, span=step), since)


def _rates(recent: list[Any]) -> dict[str, float | None]:
    """Rates per second over the last three points; the newest is incomplete and left out."""
    complete = recent[:-1][-3:]
    seconds = sum(point.span for point in complete)
    return {
        name: sum(getattr(point, name) for point in complete) / seconds if seconds else None
        for name in ("sent", "received", "failed", "refused", "requests")
    }
