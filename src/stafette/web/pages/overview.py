"""The first page: how everything is, right now and lately."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from stafette.web import health
from stafette.web.access import TheSite, Viewer
from stafette.web.charts import over_time
from stafette.web.rendering import page

router = APIRouter()

SPANS = {"15m": (900, 10), "1h": (3600, 10), "6h": (6 * 3600, 60), "24h": (86400, 300), "7d": (7 * 86400, 3600),
         "30d": (30 * 86400, 4 * 3600)}  # fmt: skip
"""What a chart may show: how far back, and how long each of its points is, in seconds."""
Span = Annotated[str, Query(pattern="^(" + "|".join(SPANS) + ")$")]


@router.get("/")
async def overview(request: Request, site: TheSite, _who: Viewer, span: Span = "1h") -> Response:
    """Figures, health, the longest queues, charts."""
    stock = await site.console.stock()
    longest, _ = await site.console.queues(order="ready", limit=10)
    recent = await site.console.history(since=datetime.now(UTC) - timedelta(seconds=60), span=10)
    values = {
        "stock": stock,
        "longest": [queue for queue in longest if queue.ready],
        "health": await health.checks(site, stock),
        "rates": _rates(recent),
        "span": span,
        "spans": list(SPANS),
    }
    return page(request, "overview.html", values)


@router.get("/charts/{chart}")
async def chart(chart: str, site: TheSite, _who: Viewer, span: Span = "1h") -> dict[str, Any]:
    """The points of a chart, for the script that draws it."""
    seconds, step = SPANS[span]
    since = datetime.now(UTC) - timedelta(seconds=seconds)
    return over_time(chart, await site.console.history(since=since, span=step), since)


def _rates(recent: list[Any]) -> dict[str, float | None]:
    """Per second, over the last whole slots."""
    whole = recent[:-1][-3:]
    seconds = sum(point.span for point in whole)
    return {
        name: sum(getattr(point, name) for point in whole) / seconds if seconds else None
        for name in ("sent", "received", "failed", "refused", "requests")
    }
