"""Search: names that contain a text, and messages by number."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from stafette.database.views import Found
from stafette.web.access import TheSite, Viewer
from stafette.web.naming import in_address
from stafette.web.rendering import page

router = APIRouter()

LIMIT = 20
NOTHING = Found(queues=[], clients=[], messages=[])


@router.get("/search")
async def search(request: Request, site: TheSite, _who: Viewer, text: str = "") -> Response:
    """What was found; what is called exactly so comes first."""
    text = text.strip()
    found = await site.console.search(text, limit=LIMIT) if text else NOTHING
    exact = [(f"/queues/{in_address(name)}", "queue", name) for name in found.queues if name == text]
    exact += [(f"/clients/{in_address(name)}", "client", name) for name in found.clients if name == text]
    values = {
        "text": text,
        "found": found,
        "exact": exact,
        "limit": LIMIT,
        "count": len(found.queues) + len(found.clients) + len(found.messages),
    }
    return page(request, "search.html", values)
