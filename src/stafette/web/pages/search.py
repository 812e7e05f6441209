"""Search: queues and clients by a part of their name, messages by ID or context."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from stafette.database.views import Found
from stafette.web.access import TheSite, Viewer
from stafette.web.naming import path_segment
from stafette.web.rendering import page

router = APIRouter()

LIMIT = 20
NO_RESULTS = Found(queues=[], clients=[], messages=[])


@router.get("/search")
async def search(request: Request, site: TheSite, _operator: Viewer, text: str = "") -> Response:
    """The results; exact matches come first."""
    text = text.strip()
    results = await site.console.search(text, limit=LIMIT) if text else NO_RESULTS
    exact = [(f"/queues/{path_segment(name)}", "queue", name) for name in results.queues if name == text]
    exact += [(f"/clients/{path_segment(name)}", "client", name) for name in results.clients if name == text]
    values = {
        "text": text,
        "results": results,
        "exact": exact,
        "limit": LIMIT,
        "count": len(results.queues) + len(results.clients) + len(results.messages),
    }
    return page(request, "search.html", values)
