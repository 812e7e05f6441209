"""The queue of runs: putting jobs in, changing their order, watching the one that is under way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response, StreamingResponse

from stafette.errors import InvalidRequest
from stafette.lab.experiment.experiment_library import Experiments, Kind
from stafette.lab.experiment.file_tables import Experiment
from stafette.lab.jobs.job_progress import JobProgress
from stafette.lab.jobs.job_records import Job
from stafette.lab.series.series_folder import own_behaviours
from stafette.runs.layout import SERIES_FILE
from stafette.web.access import Administrator, TheSite, Viewer
from stafette.web.lab import series_results
from stafette.web.rendering import done, page
from stafette.web.site import Site

router = APIRouter(prefix="/queue")

HEARTBEAT_SECONDS = 10.0


@router.post("")
async def add(
    site: TheSite, who: Administrator, kind: Annotated[Kind, Form()], name: Annotated[str, Form()],
    profile: Annotated[str, Form()] = "", new: Annotated[bool, Form()] = False,
    analyse: Annotated[bool, Form()] = False,
) -> Response:  # fmt: skip
    """Run an experiment when its turn comes."""
    found = Experiments(site.settings.experiments).find(kind, name)
    if profile and profile not in found.profiles:
        raise InvalidRequest(f"{name} has no profile {profile[:60]}; choose one of the list")
    job = site.job_queue.add(
        "run", name, file=str(found.path), profile=profile or None, new=new, analyse=analyse
    )  # fmt: skip
    await site.console.audit.record(who, "queue run", name, f"job {job.id}, profile {profile or '-'}")
    return done(f"/lab/queue/{job.id}", f"{name} is in the queue as job {job.id}")


@router.post("/series")
async def add_series(
    site: TheSite, who: Administrator, name: Annotated[str, Form()], what: Annotated[str, Form()]
) -> Response:
    """Analyse a series, or let an unfinished one go on."""
    series = series_results.find(site.job_queue.runs, name)
    if site.job_queue.uses(name):
        raise InvalidRequest(f"{name} is in the queue already; wait for it")
    if what == "analyse":
        job = site.job_queue.add("analyse", series.record.experiment, series=name)
    elif what == "go on":
        if own := own_behaviours(Experiment.model_validate(series.record.settings)):
            raise InvalidRequest(
                f"{name} brings behaviours of its own ({', '.join(own)}), and the pages run no code that came with a"
                " series; run its experiment again, which goes on with what is missing"
            )
        job = site.job_queue.add(
            "run", series.record.experiment, series=name, profile=series.record.profile
        )  # fmt: skip
    else:
        raise InvalidRequest(f"a series can be analysed, or go on; {what[:40]!r} is neither")
    await site.console.audit.record(who, f"queue {job.kind}", name, f"job {job.id}")
    return done(f"/lab/queue/{job.id}", f"{name} is in the queue as job {job.id}")


@router.post("/{id}/up")
async def move_up(site: TheSite, who: Administrator, id: str) -> Response:  # noqa: A002
    """One place nearer to its turn."""
    job = site.job_queue.move_up(id)
    await site.console.audit.record(who, "move up job", job.experiment, f"job {id}")
    return done("/lab#queue", f"job {id} comes one place earlier")


@router.post("/{id}/remove")
async def remove(site: TheSite, who: Administrator, id: str) -> Response:  # noqa: A002
    """Take a job out that waits."""
    job = site.job_queue.remove(id)
    await site.console.audit.record(who, "remove job", job.experiment, f"job {id}")
    return done("/lab#queue", f"job {id} ({job.experiment}) is out of the queue")


@router.post("/{id}/stop")
async def stop(site: TheSite, who: Administrator, id: str) -> Response:  # noqa: A002
    """Break off the job that is under way."""
    job = site.job_queue.stop(id)
    await site.console.audit.record(who, "stop job", job.experiment, f"job {id}")
    return done(f"/lab/queue/{id}", f"job {id} is being stopped; what it started ends in a moment")


@router.get("/{id}")
async def watch(request: Request, site: TheSite, _who: Viewer, id: str) -> Response:  # noqa: A002
    """How far a job is."""
    job = site.job_queue.find(id)
    live = site.job_queue.progress(id)
    waiting = [other.id for other in site.job_queue.waiting()]
    values = {
        "job": job,
        "state": _state(job, live),
        "lines": live.lines if live else job.tail,
        "before": waiting.index(id) if id in waiting else 0,
        "made": job.series is not None and (site.job_queue.runs / job.series / SERIES_FILE).is_file(),
    }
    return page(request, "lab/live.html", values)


@router.get("/{id}/events")
async def events(site: TheSite, _who: Viewer, id: str) -> Response:  # noqa: A002
    """How far a job is, from now on."""
    job = site.job_queue.find(id)
    if job.over:
        return Response(status_code=204)  # which tells a browser not to ask again
    return StreamingResponse(
        _events(site, job), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"}
    )  # fmt: skip


async def _events(site: Site, job: Job) -> AsyncIterator[str]:
    """The whole state, then what changes; a word now and then, so that nobody thinks the line is dead."""
    points = lines = 0
    first = True
    while not job.over:
        live = site.job_queue.progress(job.id)
        if live is None:  # it waits
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
    """What the page shows of a job."""
    known: dict[str, Any] = {"series": job.series, "phase": job.state, "progress": None}
    return {"job": job.state, **(live.state(points, lines) if live else known)}


def _event(name: str, data: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"
