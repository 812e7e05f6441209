"""What a series came to: verdict, points, runs, and the report's figures; its files, and its end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import FileResponse, Response, StreamingResponse

from stafette.errors import InvalidRequest
from stafette.lab.series import archive, run_views
from stafette.lab.series.run_views import POINT_METRICS
from stafette.lab.series.series_folder import Series
from stafette.pipeline import default_analysis
from stafette.runs.layout import ANALYSIS, EXPERIMENT_FILE, REPORT_FILE
from stafette.web import safety
from stafette.web.access import Administrator, TheSite, Viewer
from stafette.web.lab import series_results
from stafette.web.naming import in_address
from stafette.web.rendering import done, page
from stafette.web.site import Site

router = APIRouter(prefix="/series")


def _find(site: Site, name: str) -> Series:
    return series_results.find(site.job_queue.runs, name)


@router.get("/{name:name}")
async def show(
    request: Request, site: TheSite, _who: Viewer, name: str, run: Annotated[int, Query(ge=1, le=1000)] = 1
) -> Response:
    """Verdict first; figures of one run at a time where there is one per run."""
    series = _find(site, name)

    def look() -> dict[str, Any]:
        from stafette.report import figures  # with Plotly, which takes a while to load: not in the event loop

        views = run_views.views(series)
        state = archive.state(series)
        analysed = series_results.analysis(series) if series_results.analysed(series) else None
        return {
            "views": views,
            "points": run_views.points(views),
            "state": state,
            "verdict": series_results.verdict(state, views),
            "analysis": analysed,
            "why_not": default_analysis.why_not() if analysed is None else None,
            "dark": figures.DARK,
        }

    found = await asyncio.to_thread(look)
    values = {
        "one": series, "record": series.record, "settings": series.record.settings,
        "metrics": POINT_METRICS, "run": run, "queued": site.job_queue.uses(name),
        "started": _moment(series.record.started_at), "ended": _moment(series.record.ended_at),
    }  # fmt: skip
    return page(request, "lab/series.html", {**found, **values})


def _moment(text: str) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


@router.get("/{name:name}/figures/{section}/{place}")
async def figure(site: TheSite, _who: Viewer, name: str, section: str, place: int) -> Response:
    """A figure for the script that draws it."""
    series = _find(site, name)
    return Response(
        await asyncio.to_thread(series_results.figure, series, section, place), media_type="application/json"
    )


@router.get("/{name:name}/report.html")
async def whole_report(site: TheSite, _who: Viewer, name: str) -> Response:
    """The report, which may do nothing outside of itself: it may have come with a series from elsewhere."""
    series = _find(site, name)
    if not series_results.analysed(series):
        raise InvalidRequest(f"{name} has not been analysed; let that be done on its page")
    headers = {"Content-Security-Policy": safety.SANDBOXED}
    return FileResponse(series.folder / ANALYSIS / REPORT_FILE, media_type="text/html", headers=headers)


@router.get("/{name:name}/zip")
async def download(site: TheSite, _who: Viewer, name: str) -> Response:
    """All of it in one file."""
    series = _find(site, name)
    pieces = archive.stream(series)
    first = await asyncio.to_thread(next, pieces, b"")  # what stands against it is said before the answer begins

    def all_pieces() -> Iterator[bytes]:
        yield first
        yield from pieces

    headers = {"Content-Disposition": f'attachment; filename="{series.name}.zip"'}
    return StreamingResponse(all_pieces(), media_type="application/zip", headers=headers)


@router.get("/{name:name}/experiment.toml")
async def experiment(site: TheSite, _who: Viewer, name: str) -> Response:
    """The experiment as it was run."""
    return FileResponse(_find(site, name).folder / EXPERIMENT_FILE, media_type="text/plain")


@router.get("/{name:name}/runs/{place}")
async def one_run(request: Request, site: TheSite, _who: Viewer, name: str, place: int) -> Response:
    """A run in full."""
    series = _find(site, name)
    _check_place(series, place)

    def look() -> dict[str, Any]:
        from stafette.report.grids import pairs  # with Plotly, as above

        record, view = run_views.record_of(series, place), run_views.view(series, place)
        if record is None:
            raise InvalidRequest(f"run {place} of {name} was not begun yet")
        return {
            "one": series, "record": record, "view": view, "started": _moment(record.started_at),
            "settings": pairs(record.settings).rows, "logs": series_results.logs(series, view.folder),
        }  # fmt: skip

    return page(request, "lab/run.html", await asyncio.to_thread(look))


@router.get("/{name:name}/runs/{place}/logs/{file:name}")
async def log(site: TheSite, _who: Viewer, name: str, place: int, file: str) -> Response:
    """A log of a run, as text."""
    series = _find(site, name)
    _check_place(series, place)
    path = series_results.log_file(series, series.record.runs[place - 1].folder, file)
    return FileResponse(path, media_type="text/plain; charset=utf-8")


def _check_place(series: Series, place: int) -> None:
    if not 1 <= place <= len(series.record.runs):
        raise InvalidRequest(f"{series.name} has no run {place}; its runs are 1 to {len(series.record.runs)}")


@router.get("/{name:name}/delete")
async def ask_to_delete(request: Request, site: TheSite, _who: Administrator, name: str) -> Response:
    """What would go."""
    series = _find(site, name)
    made = sum(run.state == "done" for run in series.record.runs)
    values = {
        "title": f"Delete the series {name}", "action": f"/lab/series/{in_address(name)}/delete",
        "sentence": f"Its {made} finished runs go for good, with traces, logs and analysis. Its experiment stays.",
        "back": f"/lab/series/{in_address(name)}", "button": "Delete the series",
    }  # fmt: skip
    return page(request, "lab/confirm.html", values)


@router.post("/{name:name}/delete")
async def delete(site: TheSite, who: Administrator, name: str) -> Response:
    """Remove it, unless it is run or waited for."""
    series = _find(site, name)
    if site.job_queue.uses(name):
        raise InvalidRequest(f"{name} is in the queue of runs; stop or remove that job first, or wait for its end")
    await asyncio.to_thread(archive.remove, series)
    await site.console.audit.record(who, "delete series", name)
    return done("/lab", f"{name} is deleted")
