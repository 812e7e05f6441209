"""The editor of experiments: a form and the text side by side, which are one document."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Body, Query, Request
from fastapi.responses import Response

from stafette.errors import InvalidRequest
from stafette.lab.experiment.experiment_library import ExperimentEntry, Experiments, Kind, check_name
from stafette.lab.experiment.file_tables import Experiment
from stafette.lab.series.series_folder import own_behaviours, without_password
from stafette.runs.layout import EXPERIMENT_FILE
from stafette.web.access import Administrator, Operator, TheSite, Viewer
from stafette.web.lab import editor, form, series_results
from stafette.web.lab.editor import Checked, Wrong
from stafette.web.naming import in_address
from stafette.web.rendering import done, page
from stafette.web.site import Site

router = APIRouter()

NEW = "new"


def _experiments(site: Site) -> Experiments:
    return Experiments(site.settings.experiments)


@router.post("/check")
async def check(
    site: TheSite, _who: Administrator, text: Annotated[str, Body(max_length=400_000)],
    field: Annotated[str | None, Body(max_length=200)] = None, value: Annotated[str, Body(max_length=20_000)] = "",
    name: Annotated[str | None, Body(max_length=100)] = None,
) -> dict[str, Any]:  # fmt: skip
    """Look through a text, after one field of the form was changed in it."""
    text = text.replace("\r\n", "\n")
    refused: list[Wrong] = []
    if field is not None:
        try:
            text = form.changed(text, field, value)
        except InvalidRequest as error:
            refused = [Wrong(None, str(error))]
    found = await asyncio.to_thread(editor.check, text, _experiments(site).folder, name=name)
    told: dict[str, Any] = msgspec.to_builtins(
        {"toml": found.toml, "form": found.form, "problems": [*refused, *found.problems], "plan": found.plan}
    )
    return told


@router.get("/experiments/new")
async def new(
    request: Request, site: TheSite, who: Administrator,
    kind: Annotated[str, Query(pattern="^(own|library|series|)$")] = "", name: str = "",
) -> Response:  # fmt: skip
    """A new experiment, or a copy of one, or of that of a series; nothing is kept until it is saved."""
    text = await asyncio.to_thread(_origin, site, kind, name) if kind else editor.BLANK.format(name=_blank(site))
    return await _page(request, site, who, text, before=None)


def _blank(site: Site) -> str:
    taken = {found.name for found in _experiments(site).entries("own")}
    names = ("my-experiment", *(f"my-experiment-{number}" for number in range(2, len(taken) + 3)))
    return next(name for name in names if name not in taken)


def _origin(site: Site, kind: str, name: str) -> str:
    """The text of a copy, with a name of its own."""
    experiments = _experiments(site)
    if kind == "series":
        series = series_results.find(site.job_queue.runs, name)
        if own := own_behaviours(Experiment.model_validate(series.record.settings)):
            raise InvalidRequest(
                f"{name} brings behaviours of its own ({', '.join(own)}); copy them with `stafette lab clone`"
            )
        try:
            text, wanted = (series.folder / EXPERIMENT_FILE).read_text(), series.record.experiment
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidRequest(f"cannot read the experiment of {name}: {error}") from error
    else:
        text, wanted = experiments.text(experiments.find("own" if kind == "own" else "library", name)), name
    return editor.renamed(text, experiments.free_name(wanted))


@router.get("/experiments/{name:name}")
async def own(request: Request, site: TheSite, who: Viewer, name: str) -> Response:
    """An experiment that was made here."""
    return await _opened(request, site, who, "own", name)


@router.get("/library/{name:name}")
async def library(request: Request, site: TheSite, who: Viewer, name: str) -> Response:
    """An experiment of the library, which can be run and cloned, not changed."""
    return await _opened(request, site, who, "library", name)


async def _opened(request: Request, site: Site, who: Operator, kind: Kind, name: str) -> Response:
    experiments = _experiments(site)
    found = experiments.find(kind, name)
    text = experiments.text(found)
    if not who.may_change:
        text = without_password(text)
    return await _page(request, site, who, text, before=name, found=found)


@router.post("/experiments")
async def save(request: Request, site: TheSite, who: Administrator) -> Response:
    """Keep what was edited, if it can be run; else show it again with what is wrong."""
    fields = dict(await request.form())
    before = str(fields.get("before") or "") or None
    text = str(fields.get("text", "")).replace("\r\n", "\n")
    try:
        text = editor.with_fields(text, fields)
    except InvalidRequest as error:
        return await _page(request, site, who, text, before=before, refused=str(error))
    found = await asyncio.to_thread(editor.check, text, _experiments(site).folder, name=before)
    if fields.get("action") == "check" or found.problems:
        refused = "it is not saved: mend what is listed below" if found.problems else None
        return await _page(request, site, who, text, before=before, refused=refused, checked=found)
    try:
        name = found.name or ""
        check_name(name)
        if name == NEW:
            raise InvalidRequest(f"{NEW!r} cannot be the name of an experiment here; choose another")
        if own := own_behaviours(found.experiment) if found.experiment else []:
            _check_there(site, own)
        kept = _experiments(site).save(name, text, before)
    except InvalidRequest as error:
        return await _page(request, site, who, text, before=before, refused=str(error), checked=found)
    await site.console.audit.record(who, "save experiment", kept.name)
    return done(f"/lab/experiments/{in_address(kept.name)}", f"{kept.name} is saved")


def _check_there(site: Site, own: list[str]) -> None:
    for file in own:
        if not (_experiments(site).folder / file).is_file():
            raise InvalidRequest(f"the behaviour file {file} is not in {_experiments(site).folder}; put it there first")


async def _page(
    request: Request, site: Site, who: Operator, text: str, *, before: str | None, found: ExperimentEntry | None = None,
    refused: str | None = None, checked: Checked | None = None,
) -> Response:  # fmt: skip
    folder = found.path.parent if found else _experiments(site).folder
    stem = found.path.stem if found else before
    if checked is None:
        checked = await asyncio.to_thread(editor.check, text, folder, name=stem)
    editable = who.may_change and (found is None or found.kind == "own")
    values = {
        "checked": checked, "parts": checked.form or [], "before": before, "refused": refused, "editable": editable,
        "kind": found.kind if found else "own", "found": found, "rows": max(24, min(60, text.count("\n") + 3)),
    }  # fmt: skip
    return page(request, "lab/editor.html", values, status=400 if refused else 200)


@router.get("/experiments/{name:name}/delete")
async def ask_to_delete(request: Request, site: TheSite, _who: Administrator, name: str) -> Response:
    """What would go."""
    found = _experiments(site).find("own", name)
    values = {
        "title": f"Delete the experiment {name}", "action": f"/lab/experiments/{in_address(name)}/delete",
        "sentence": f"The file {found.path.name} is removed for good. Series that were run with it stay.",
        "back": f"/lab/experiments/{in_address(name)}", "button": "Delete the experiment",
    }  # fmt: skip
    return page(request, "lab/confirm.html", values)


@router.post("/experiments/{name:name}/delete")
async def delete(site: TheSite, who: Administrator, name: str) -> Response:
    """Remove the file, unless it is waited for."""
    found = _experiments(site).find("own", name)
    if any(job.file == str(found.path) for job in site.job_queue.waiting()):
        raise InvalidRequest(f"{name} is in the queue of runs; remove it there first, or wait for its end")
    _experiments(site).delete(name)
    await site.console.audit.record(who, "delete experiment", name)
    return done("/lab", f"{name} is deleted")
