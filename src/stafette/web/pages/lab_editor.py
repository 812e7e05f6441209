"""The editor of experiments: a form and the text of the same file, side by side."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Body, Query, Request
from fastapi.responses import Response

from stafette.database.masking import masked_toml
from stafette.errors import InvalidRequest
from stafette.lab.experiment.experiment_file import read_text
from stafette.lab.experiment.experiment_library import ExperimentEntry, Experiments, Kind, check_name
from stafette.lab.experiment.toml_limits import MOST_BYTES
from stafette.runs.layout import EXPERIMENT_FILE
from stafette.web.access import Administrator, Operator, TheSite, Viewer
from stafette.web.lab import editor, series_results
from stafette.web.lab.editor_state import EditorState
from stafette.web.naming import path_segment
from stafette.web.rendering import page, redirect
from stafette.web.site import Site

router = APIRouter()

NEW = "new"


def _experiments(site: Site) -> Experiments:
    return Experiments(site.settings.experiments)


@router.post("/check")
async def check(
    site: TheSite, _operator: Administrator, text: Annotated[str, Body(max_length=MOST_BYTES)],
    field: Annotated[str | None, Body(max_length=200)] = None, value: Annotated[str, Body(max_length=20_000)] = "",
    name: Annotated[str | None, Body(max_length=100)] = None,
) -> dict[str, Any]:  # fmt: skip
    """Check a text; if a field of the form was changed, after putting it into the text."""
    state = await site.texts.check(text, name=name, changes=[] if field is None else [(field, value)])
    answer: dict[str, Any] = msgspec.to_builtins(
        {"toml": state.toml, "form": state.form, "problems": state.problems, "plan": state.plan}
    )
    return answer


@router.get("/experiments/new")
async def new(
    request: Request, site: TheSite, operator: Administrator,
    kind: Annotated[str, Query(pattern="^(own|library|series|)$")] = "", name: str = "",
) -> Response:  # fmt: skip
    """A new experiment, or a copy of an experiment or of that of a series; only saving stores it."""
    if not kind:
        return await _page(request, site, operator, editor.BLANK.format(name=_new_name(site)), before=None)
    text, copy_name = await asyncio.to_thread(_copy, site, kind, name)
    state = await site.texts.check(text, rename=copy_name)
    return await _page(request, site, operator, text, before=None, state=state)


def _new_name(site: Site) -> str:
    used = {experiment.name for experiment in _experiments(site).entries("own")}
    names = ("my-experiment", *(f"my-experiment-{number}" for number in range(2, len(used) + 3)))
    return next(name for name in names if name not in used)


def _copy(site: Site, kind: str, name: str) -> tuple[str, str]:
    """The text to copy, and a name for the copy."""
    experiments = _experiments(site)
    if kind == "series":
        series = series_results.find(site.job_queue.runs, name)
        text, original = read_text(series.folder / EXPERIMENT_FILE), series.record.experiment
    else:
        text, original = experiments.text(experiments.find("own" if kind == "own" else "library", name)), name
    return text, experiments.free_name(original)


@router.get("/experiments/{name:name}")
async def show_own(request: Request, site: TheSite, operator: Viewer, name: str) -> Response:
    """An experiment that was saved here."""
    return await _show(request, site, operator, "own", name)


@router.get("/library/{name:name}")
async def show_library(request: Request, site: TheSite, operator: Viewer, name: str) -> Response:
    """An experiment of the library: read-only, can be run and cloned."""
    return await _show(request, site, operator, "library", name)


async def _show(request: Request, site: Site, operator: Operator, kind: Kind, name: str) -> Response:
    experiments = _experiments(site)
    experiment = experiments.find(kind, name)
    text = experiments.text(experiment)
    if not operator.may_change:
        text = masked_toml(text)
    return await _page(request, site, operator, text, before=name, saved=experiment)


@router.post("/experiments")
async def save(request: Request, site: TheSite, operator: Administrator) -> Response:
    """Save the text if it can be run; otherwise show it again with its problems."""
    fields = dict(await request.form())
    before = str(fields.get("before") or "") or None
    text = str(fields.get("text", "")).replace("\r\n", "\n")
    state = await site.texts.check(text, name=before, changes=editor.changes_of(fields))
    text = state.toml
    if fields.get("action") == "check" or state.problems:
        problem = "not saved; correct the problems listed below" if state.problems else None
        return await _page(request, site, operator, text, before=before, problem=problem, state=state)
    try:
        name = state.name or ""
        check_name(name)
        if name == NEW:
            raise InvalidRequest(f"{NEW!r} cannot be the name of an experiment; choose another")
        experiment = _experiments(site).save(name, text, before)
    except InvalidRequest as error:
        return await _page(request, site, operator, text, before=before, problem=str(error), state=state)
    await site.console.audit.record(operator, "save experiment", experiment.name)
    url = f"/lab/experiments/{path_segment(experiment.name)}"
    return redirect(url, f"experiment {experiment.name} was saved")


async def _page(
    request: Request, site: Site, operator: Operator, text: str, *, before: str | None,
    saved: ExperimentEntry | None = None, problem: str | None = None, state: EditorState | None = None,
) -> Response:  # fmt: skip
    folder = saved.path.parent if saved else _experiments(site).folder
    stem = saved.path.stem if saved else before
    if state is None:
        state = await site.texts.check(text, folder=folder, name=stem)
    editable = operator.may_change and (saved is None or saved.kind == "own")
    values = {
        "state": state, "before": before, "problem": problem, "editable": editable,
        "kind": saved.kind if saved else "own", "saved": saved, "rows": max(24, min(60, text.count("\n") + 3)),
    }  # fmt: skip
    return page(request, "lab/editor.html", values, status=400 if problem else 200)


@router.get("/experiments/{name:name}/delete")
async def confirm_delete(request: Request, site: TheSite, _operator: Administrator, name: str) -> Response:
    """The page that asks for confirmation."""
    experiment = _experiments(site).find("own", name)
    values = {
        "title": f"Delete the experiment {name}", "action": f"/lab/experiments/{path_segment(name)}/delete",
        "question": f"The file {experiment.path.name} will be deleted permanently. The series of the experiment stay.",
        "back": f"/lab/experiments/{path_segment(name)}", "button": "Delete the experiment",
    }  # fmt: skip
    return page(request, "lab/confirm.html", values)


@router.post("/experiments/{name:name}/delete")
async def delete(site: TheSite, operator: Administrator, name: str) -> Response:
    """Delete the file, unless a job needs it."""
    experiment = _experiments(site).find("own", name)
    if any(job.file == str(experiment.path) for job in site.job_queue.waiting()):
        raise InvalidRequest(f"{name} is in the queue of runs; remove it there first, or wait until it ends")
    _experiments(site).delete(name)
    await site.console.audit.record(operator, "delete experiment", name)
    return redirect("/lab", f"experiment {name} was deleted")
