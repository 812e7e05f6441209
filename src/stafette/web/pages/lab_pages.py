"""All pages of the laboratory; if its libraries are missing, one page that says so."""

from __future__ import annotations

from fastapi import APIRouter

from stafette.errors import NotFound
from stafette.web.access import Viewer

router = APIRouter()
switched_off = APIRouter()


@switched_off.api_route("/lab", methods=["GET", "POST"])
@switched_off.api_route("/lab/{rest:path}", methods=["GET", "POST"])
async def say_switched_off(_operator: Viewer, rest: str = "") -> None:
    """Say that there is no laboratory here."""
    raise NotFound("the laboratory is switched off here; start the console without --no-lab")


try:
    from stafette.web.pages import lab_editor, lab_list, lab_queue, lab_series
except ImportError as error:  # the console works without the laboratory
    missing = (error.name or "").partition(".")[0]
    if missing in ("", "stafette"):
        raise

    @router.get("/lab")
    @router.get("/lab/{rest:path}")
    async def not_installed(_operator: Viewer, rest: str = "") -> None:
        """Say what to install."""
        raise NotFound(f"the laboratory needs {missing}; install stafette[lab]")
else:
    for module in (lab_list, lab_editor, lab_queue, lab_series):
        router.include_router(module.router, prefix="/lab")
