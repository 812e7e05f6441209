"""A series: verdict, points, runs and figures; its files; deleting it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import FileResponse, Response, StreamingResponse

from stafette.errors import InvalidRequest, NotFound, StafetteError
from stafette.lab.series import archive, run_views
from stafette.lab.series.run_views import POINT_METRICS
from stafette.lab.series.series_folder import Series
from stafette.pipeline import default_analysis
from stafette.runs import records
from stafette.runs.layout import ANALYSIS, EXPERIMENT_FILE, REPORT_FILE
from stafette.web import safety
from stafette.web.access import Administrator, TheSite, Viewer
from stafette.web.lab import series_results
from stafette.web.naming import path_segment
from stafette.web.rendering import page, plural, redirect
from stafette.web.site import Site

router = APIRouter(prefix="/series")


def _find(site: Site, name: str) -> Series:
    return series_results.find(site.job_queue.runs, name)


@router.get("/{name:name}")
async def show(
    request: Request, site: TheSite, _operator: Viewer, name: str, run: Annotated[int, Query(ge=1, le=1000)] = 1
) -> Response:
    """The page of a series; figures that exist per run are shown for one run at a time."""
    series = _find(site, name)

    def read_results() -> dict[str, Any]:
        from stafette.report import figures  # loads Plotly, which is slow: not in the event loop

        views = run_views.views(series)
        state = archive.state(series)
        analysis, unreadable = None, None
        if series_results.is_analysed(series):
            try:
                analysis = series_results.analysis(series)
            except StafetteError as error:
                unreadable = error.sentence
        return {
            "views": views,
            "points": run_views.points(views),
            "state": state,
            "verdict": series_results.verdict(state, views),
            "analysis": analysis,
            "unreadable": unreadable,
            "why_no_analysis": default_analysis.why_not() if analysis is None else None,
            "dark": figures.DARK,
        }

    results = await asyncio.to_thread(read_results)
    values = {
        "series": series, "record": series.record, "settings": series.record.settings, "metrics": POINT_METRICS,
        "run": run, "queued": site.job_queue.uses(name),
        "started": records.moment(series.record.started_at), "ended": records.moment(series.record.ended_at),
        "imported": records.moment(series.record.imported_at),
    }  # fmt: skip
    return page(request, "lab/series.html", {**results, **values})


@router.get("/{name:name}/figures/{section}/{number}")
async def figure(site: TheSite, _operator: Viewer, name: str, section: str, number: int) -> Response:
    """A figure, for the script that draws it."""
    series = _find(site, name)
    return Response(
        await asyncio.to_thread(series_results.figure, series, section, number), media_type="application/json"
    )


@router.get("/{name:name}/report.html")
async def report(site: TheSite, _operator: Viewer, name: str) -> Response:
    """The full report, in a sandbox: it may have been imported with a series."""
    series = _find(site, name)
    if not series_results.is_analysed(series):
        raise NotFound(f"{name} has not been analysed; analyse it on its page")
    headers = {"Content-Security-Policy": safety.SANDBOXED}
    return FileResponse(series.folder / ANALYSIS / REPORT_FILE, media_type="text/html", headers=headers)


@router.get("/{name:name}/zip")
async def download(site: TheSite, _operator: Viewer, name: str) -> Response:
    """The whole series as a zip file."""
    series = _find(site, name)
    pieces = archive.stream(series)
    first = await asyncio.to_thread(next, pieces, b"")  # errors show before the answer begins

    def all_pieces() -> Iterator[bytes]:
        yield first
        yield from pieces

    headers = {"Content-Disposition": f'attachment; filename="{series.name}.zip"'}
    return StreamingResponse(all_pieces(), media_type="application/zip", headers=headers)


@router.get("/{name:name}/experiment.toml")
async def experiment(site: TheSite, _operator: Viewer, name: str) -> Response:
    """The experiment as it was run."""
    return FileResponse(_find(site, name).folder / EXPERIMENT_FILE, media_type="text/plain")


@router.get("/{name:name}/runs/{number}")
async def show_run(request: Request, site: TheSite, _operator: Viewer, name: str, number: int) -> Response:
    """The page of a run."""
    series = _find(site, name)
    _check_number(series, number)

    def read_run() -> dict[str, Any]:
        from stafette.report.grids import pairs  # loads Plotly, as above

        record, view = run_views.record_of(series, number), run_views.view(series, number)
        if record is None:
            raise NotFound(f"run {number} of {name} has not started yet")
        return {
            "series": series, "record": record, "view": view, "started": records.moment(record.started_at),
            "settings": pairs(record.settings).rows, "logs": series_results.logs(series, view.folder),
        }  # fmt: skip

    return page(request, "lab/run.html", await asyncio.to_thread(read_run))


@router.get("/{name:name}/runs/{number}/logs/{file:name}")
async def log(site: TheSite, _operator: Viewer, name: str, number: int, file: str) -> Response:
    """A log of a run, as text."""
    series = _find(site, name)
    _check_number(series, number)
    path = series_results.log_file(series, series.record.runs[number - 1].folder, file)
    return FileResponse(path, media_type="text/plain; charset=utf-8")


def _check_number(series: Series, number: int) -> None:
    if not 1 <= number <= len(series.record.runs):
        raise NotFound(f"{series.name} has no run {number}; its runs are 1 to {len(series.record.runs)}")


@router.get("/{name:name}/delete")
async def confirm_delete(request: Request, site: TheSite, _operator: Administrator, name: str) -> Response:
    """The page that asks for confirmation."""
    series = _find(site, name)
    finished = sum(run.state == "done" for run in series.record.runs)
    values = {
        "title": f"Delete the series {name}", "action": f"/lab/series/{path_segment(name)}/delete",
        "question": f"The series has {plural(finished, 'finished run')}. It will be deleted permanently, with traces,"
        " logs and analysis. Its experiment stays.",
        "back": f"/lab/series/{path_segment(name)}", "button": "Delete the series",
    }  # fmt: skip
    return page(request, "lab/confirm.html", values)


@router.post("/{name:name}/delete")
async def delete(site: TheSite, operator: Administrator, name: str) -> Response:
    """Delete the series, unless a job uses it."""
    series = _find(site, name)
    if site.job_queue.uses(name):
        raise InvalidRequest(f"{name} is in the queue of runs; stop or remove that job first, or wait until it ends")
    await asyncio.to_thread(archive.remove, series)
    await site.console.audit.record(operator, "delete series", name)
    return redirect("/lab", f"series {name} was deleted")
