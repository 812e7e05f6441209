"""The laboratory's first page: experiments, series with their results, and the queue of runs. Comparison and import."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, UploadFile
from fastapi.responses import Response

from stafette.errors import InvalidRequest, StafetteError
from stafette.lab.experiment.experiment_library import Experiments
from stafette.lab.jobs.job_child import JobChild
from stafette.lab.series import archive, comparison
from stafette.lab.series.differences import METRICS, Difference
from stafette.statistics.intervals import LEVEL
from stafette.web.access import Administrator, TheSite, Viewer
from stafette.web.lab import series_results
from stafette.web.naming import path_segment
from stafette.web.rendering import page, plural, redirect

router = APIRouter()

UNITS = {"throughput": "requests/s", "mean_ms": "ms", "p50_ms": "ms", "p99_ms": "ms", "error_share": "share"}
CHUNK_BYTES = 1 << 20
IMPORT_SECONDS = 900.0
"""How long an import may take; 64 GiB take some ten minutes."""


@router.get("")
async def index(request: Request, site: TheSite, _operator: Viewer) -> Response:
    """The first page of the laboratory."""
    experiments = Experiments(site.settings.experiments)

    def read_folders() -> dict[str, Any]:
        return {
            "own": experiments.entries("own"),
            "library": experiments.entries("library"),
            "series": series_results.list_series(site.job_queue.runs),
        }

    lists = await asyncio.to_thread(read_folders)
    queue = {"waiting": site.job_queue.waiting(), "ended": site.job_queue.ended()[:5], "works": site.job_queue.works}
    return page(request, "lab/index.html", {**lists, **queue, "live": site.job_queue.progress})


@router.get("/compare")
async def compare(
    request: Request, site: TheSite, _operator: Viewer, a: str = "", b: str = "",
    s: Annotated[list[str] | None, Query(max_length=100)] = None,
) -> Response:  # fmt: skip
    """Two series side by side: `a` and `b`, or the two that were selected in the list."""
    if s:
        if len(s) != 2:
            raise InvalidRequest(f"{plural(len(s), 'series', 'series')} selected; select two to compare")
        b, a = s  # the list has the newest first, and the older one is the baseline
    names = [row.name for row in await asyncio.to_thread(series_results.list_series, site.job_queue.runs)]
    result = None
    if a and b:
        sides = [series_results.find(site.job_queue.runs, name) for name in (a, b)]
        result = await asyncio.to_thread(comparison.compare_series, *sides)
    values = {
        "a": a, "b": b, "names": names, "comparison": result, "level": LEVEL,
        "rows": [_row(difference) for difference in result.differences] if result else [],
        "has_several_points": result is not None and len({row.label for row in result.differences}) > 1,
    }  # fmt: skip
    return page(request, "lab/compare.html", values)


def _row(difference: Difference) -> dict[str, Any]:
    change = difference.change
    pattern = "{:+.4f}" if difference.kind == "difference" else "× {:.3f}"
    has_interval = change is not None and change.low is not None and change.high is not None
    kinds = {"faster": "good", "fewer errors": "good", "slower": "bad", "more errors": "bad"}
    return {
        "label": difference.label,
        "metric": difference.metric,
        "unit": UNITS[difference.metric],
        "a": difference.mean_a,
        "b": difference.mean_b,
        "digits": 4
        if difference.metric == METRICS[-1]
        else 1
        if max(difference.mean_a, difference.mean_b) >= 100
        else 3,
        "runs": f"{difference.runs_a} and {difference.runs_b}",
        "change": "–" if change is None else pattern.format(change.value),
        "interval": f"{pattern.format(change.low)} … {pattern.format(change.high)}" if has_interval and change else "–",
        "verdict": difference.verdict,
        "kind": kinds.get(difference.verdict, "open"),
    }


@router.post("/import")
async def import_series(site: TheSite, operator: Administrator, file: UploadFile) -> Response:
    """Import a series that was downloaded, here or elsewhere."""
    runs = site.job_queue.runs
    try:
        runs.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(prefix=".upload-", suffix=".zip", dir=runs) as copy:
            while chunk := await file.read(CHUNK_BYTES):
                archive.check_room(runs, len(chunk))
                copy.write(chunk)
            copy.flush()
            try:
                name = await _import(Path(copy.name), runs)
            except InvalidRequest as error:
                raise InvalidRequest(str(error).replace(copy.name, (file.filename or "the file")[:100])) from error
    except OSError as error:
        raise InvalidRequest(f"cannot store the file in {runs}: {error.strerror}") from error
    await site.console.audit.record(operator, "import series", name, file.filename or "")
    return redirect(f"/lab/series/{path_segment(name)}", f"series {name} was imported")


async def _import(file: Path, runs: Path) -> str:
    """Import a file in a process of its own; returns the name of the series."""
    child = await JobChild.start("stafette.lab.jobs.import_process", Path("/"))
    try:
        async with asyncio.timeout(IMPORT_SECONDS):
            end = await child.work({"file": str(file), "runs": str(runs)}, lambda _event: None)
    except TimeoutError as error:
        child.interrupt()  # it removes what it has unpacked
        raise InvalidRequest(
            f"{file} could not be unpacked within {IMPORT_SECONDS / 60:.0f} minutes; use `stafette lab import`"
        ) from error
    except StafetteError as error:
        raise InvalidRequest(f"{file} could not be imported: {error}") from error
    finally:
        await child.close()
    if (refusal := end.get("refusal")) is not None:
        raise InvalidRequest(refusal)
    return str(end["series"])
