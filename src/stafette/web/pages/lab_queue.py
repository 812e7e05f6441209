"""The queue of runs: adding jobs, changing their order, following the one that runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response, StreamingResponse

from stafette.errors import InvalidRequest
from stafette.lab.experiment.experiment_library import Experiments, Kind
from stafette.lab.jobs.job_progress import JobProgress
from stafette.lab.jobs.job_records import Job
from stafette.runs.layout import SERIES_FILE
from stafette.web.access import Administrator, TheSite, Viewer
from stafette.web.lab import series_results
from stafette.web.rendering import page, redirect
from stafette.web.site import Site

router = APIRouter(prefix="/queue")

HEARTBEAT_SECONDS = 10.0


@router.post("")
async def add(
    site: TheSite, operator: Administrator, kind: Annotated[Kind, Form()], name: Annotated[str, Form()],
    profile: Annotated[str, Form()] = "", new: Annotated[bool, Form()] = False,
    analyse: Annotated[bool, Form()] = False,
) -> Response:  # fmt: skip
    """Add a job that runs an experiment."""
    experiment = Experiments(site.settings.experiments).find(kind, name)
    if profile and profile not in experiment.profiles:
        raise InvalidRequest(f"{name} has no profile {profile[:60]}; choose one from the list")
    file = str(experiment.path)
    job = site.job_queue.add("run", name, file=file, profile=profile or None, new=new, analyse=analyse)
    await site.console.audit.record(operator, "queue run", name, f"job {job.id}, profile {profile or '-'}")
    return redirect(f"/lab/queue/{job.id}", f"{name} was queued as job {job.id}")


@router.post("/series")
async def add_series(
    site: TheSite, operator: Administrator, name: Annotated[str, Form()], what: Annotated[str, Form()]
) -> Response:
    """Add a job that analyses a series, or resumes an unfinished one."""
    series = series_results.find(site.job_queue.runs, name)
    if site.job_queue.uses(name):
        raise InvalidRequest(f"{name} is already in the queue; wait until its job ends")
    if what == "analyse":
        job = site.job_queue.add("analyse", series.record.experiment, series=name)
    elif what == "go on":
        await site.texts.check_series(series.folder)
        job = site.job_queue.add("run", series.record.experiment, series=name, profile=series.record.profile)
    else:
        raise InvalidRequest(f"there is no action {what[:40]!r} for a series; choose 'analyse' or 'go on'")
    await site.console.audit.record(operator, f"queue {job.kind}", name, f"job {job.id}")
    return redirect(f"/lab/queue/{job.id}", f"{name} was queued as job {job.id}")


@router.post("/{id}/up")
async def move_up(site: TheSite, operator: Administrator, id: str) -> Response:  # noqa: A002
    """Move a waiting job one position up."""
    job = site.job_queue.move_up(id)
    await site.console.audit.record(operator, "move up job", job.experiment, f"job {id}")
    return redirect("/lab#queue", f"job {id} was moved up")


@router.post("/{id}/remove")
async def remove(site: TheSite, operator: Administrator, id: str) -> Response:  # noqa: A002
    """Remove a waiting job."""
    job = site.job_queue.remove(id)
    await site.console.audit.record(operator, "remove job", job.experiment, f"job {id}")
    return redirect("/lab#queue", f"job {id} ({job.experiment}) was removed from the queue")


@router.post("/{id}/stop")
async def stop(site: TheSite, operator: Administrator, id: str) -> Response:  # noqa: A002
    """Stop the job that runs."""
    job = site.job_queue.stop(id)
    await site.console.audit.record(operator, "stop job", job.experiment, f"job {id}")
    return redirect(f"/lab/queue/{id}", f"job {id} is being stopped; its processes end in a moment")


@router.get("/{id}")
async def show(request: Request, site: TheSite, _operator: Viewer, id: str) -> Response:  # noqa: A002
    """A job, its progress and its log."""
    job = site.job_queue.find(id)
    live = site.job_queue.progress(id)
    waiting = [other.id for other in site.job_queue.waiting()]
    values = {
        "job": job,
        "state": _state(job, live),
        "lines": live.lines if live else job.tail,
        "jobs_ahead": waiting.index(id) if id in waiting else 0,
        "has_result": job.series is not None and (site.job_queue.runs / job.series / SERIES_FILE).is_file(),
    }
    return page(request, "lab/live.html", values)


@router.get("/{id}/events")
async def events(site: TheSite, _operator: Viewer, id: str) -> Response:  # noqa: A002
    """The progress of a job, as server-sent events."""
    job = site.job_queue.find(id)
    if job.over:
        return Response(status_code=204)  # tells a browser not to connect again
    return StreamingResponse(
        _events(site, job), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"}
    )  # fmt: skip


async def _events(site: Site, job: Job) -> AsyncIterator[str]:
    """The full state, then the changes; comments in between, so that the connection is not taken for dead."""
    points = lines = 0
    first = True
    while not job.over:
        live = site.job_queue.progress(job.id)
        if live is None:  # the job is waiting
            yield _event("state", _state(job, None) | {"points": [], "lines": []}) if first else ": waiting\n\n"
            first = False
            await asyncio.sleep(1)
            job = site.job_queue.find(job.id)
            continue
        changed = live.changed
        yield _event("state" if points == lines == 0 else "more", _state(job, live, points, lines))
        points, lines = live.point_count, live.line_count
        if live.over:
            break
        while not changed.is_set():
            try:
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    await changed.wait()
            except TimeoutError:
                yield ": still here\n\n"
    if job.over:
        yield _event("end", {"state": job.state, "sentence": job.sentence, "series": job.series})


def _state(job: Job, live: JobProgress | None, points: int = 0, lines: int = 0) -> dict[str, Any]:
    """The state of a job as the page's script gets it."""
    idle: dict[str, Any] = {"series": job.series, "phase": job.state, "progress": None}
    return {"job": job.state, **(live.state(points, lines) if live else idle)}


def _event(name: str, data: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"
