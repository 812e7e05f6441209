"""`stafette lab`: the laboratory. Each command loads the libraries that it needs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stafette import settings
from stafette.cli.exits import INTERRUPTED
from stafette.cli.output import Json, say, show_json
from stafette.errors import InvalidRequest, StafetteError
from stafette.files import keep_private

if TYPE_CHECKING:
    from stafette.lab.series.series_folder import Series

app = typer.Typer(
    help="The laboratory: run experiments, show and compare their results.", no_args_is_help=True, add_completion=False
)

Runs = Annotated[Path | None, typer.Option("--runs", help="Folder of the series; default: runs/ in the data folder.")]
Name = Annotated[
    str, typer.Argument(metavar="NAME", help="A series, an experiment (its newest series), or the folder of a series.")
]


@contextlib.contextmanager
def _libraries() -> Iterator[None]:
    """Explain a failed import: name the missing library, and what to install."""
    try:
        yield
    except ImportError as error:
        name = (error.name or "").partition(".")[0]
        if name in ("", "stafette"):
            raise
        raise StafetteError(f"the laboratory needs {name}; install stafette[lab]") from error


def _folder(runs: Path | None) -> Path:
    return settings.load(runs=runs).runs_folder.resolve()


def _find(name: str, runs: Path | None) -> Series:
    with _libraries():
        from stafette.lab.series import series_folder
        from stafette.runs.layout import SERIES_FILE
    folder = Path(name).resolve()  # NAME may be a folder, such as "."
    return series_folder.find(_folder(runs), str(folder) if (folder / SERIES_FILE).is_file() else name)


def _show_result(fields: dict[str, object], *, as_json: bool) -> None:
    """Print what a command created: all fields in JSON, else the first one, an argument for the next command."""
    if as_json:
        show_json(fields)
    else:
        print(next(iter(fields.values())))


@app.command()
def run(
    file: Annotated[
        Path, typer.Argument(metavar="EXPERIMENT.toml", help="The experiment file; see docs/experiments.md.")
    ],
    profile: Annotated[str | None, typer.Option("--profile", help="Profile of the file whose values to use.")] = None,
    runs: Runs = None,
    new: Annotated[bool, typer.Option("--new", help="Start a new series, even if one is unfinished.")] = False,
    report: Annotated[
        bool, typer.Option("--report", help="Analyse the series at the end, and write the report.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run an experiment, or continue its unfinished series, and print the result of each run.

    Exit code 1: a run failed or is not valid; 99: a threshold was missed; 130: interrupted with Ctrl-C.

    Example: stafette lab run experiments/ftab-6.toml --profile quick
    """
    resume_command = ["stafette", "lab", "run", str(file)]
    resume_command += ["--profile", profile] if profile else []
    resume_command += ["--runs", str(runs)] if runs else []
    try:
        with _libraries():
            from stafette.cli import lab_make
        lab_make.make(
            file,
            profile=profile,
            runs=_folder(runs),
            new=new,
            report=report,
            as_json=as_json,
            resume_command=resume_command,
        )
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


@app.command()
def ls(runs: Runs = None, as_json: Json = False) -> None:
    """List all series, the newest last.

    Example: stafette lab ls
    """
    with _libraries():
        from stafette.cli import lab_show
    lab_show.list_series(_folder(runs), as_json=as_json)


@app.command()
def show(
    name: Name,
    position: Annotated[int | None, typer.Option("--run", min=1, help="Show this run in full, by its number.")] = None,
    runs: Runs = None,
    as_json: Json = False,
) -> None:
    """Show a series: its settings, and the mean of each point with a 95 % interval; or one of its runs.

    Example: stafette lab show ftab-6-0001 --run 3
    """
    with _libraries():
        from stafette.cli import lab_show
    series = _find(name, runs)
    if position is None:
        lab_show.show_series(series, as_json=as_json)
    else:
        lab_show.show_run(series, position, as_json=as_json)


@app.command()
def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="The series to compare with (baseline).")],
    b: Annotated[str, typer.Argument(metavar="B", help="The series to compare.")],
    runs: Runs = None,
    as_json: Json = False,
) -> None:
    """Compare two series point by point, with 95 % intervals, and show which settings differ.

    Example: stafette lab compare ftab-6-0001 ftab-6-0002
    """
    with _libraries():
        from stafette.cli import lab_compare
    lab_compare.show_comparison(_find(a, runs), _find(b, runs), as_json=as_json)


@app.command()
def clone(
    name: Name,
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Default: EXPERIMENT-copy.toml in the working folder.")
    ] = None,
    runs: Runs = None,
    as_json: Json = False,
) -> None:
    """Write the experiment of a series to a file, with the behaviours that came with it; print the file's name.

    Example: stafette lab clone ftab-6-0001 my-own.toml
    """
    with _libraries():
        from stafette.lab.series import archive
    series = _find(name, runs)
    target = file or Path(f"{Path(series.record.experiment).name}-copy.toml")
    paths = archive.clone(series, target)
    _show_result({"file": str(target), "behaviours": [str(path) for path in paths if path != target]}, as_json=as_json)
    profile = f" --profile {series.record.profile}" if series.record.profile else ""
    if "***" in target.read_text():
        say("the copy has no database password; add it")
    if series.record.imported_at and len(paths) > 1:
        say("the behaviours came with an imported series; read them before you run them")
    say(f"edit the file, and run it with `stafette lab run {target}{profile}`")


@app.command()
def rm(
    names: Annotated[list[str], typer.Argument(metavar="NAME…", help="Series, by name or folder.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    runs: Runs = None,
    as_json: Json = False,
) -> None:
    """Permanently delete series with all their runs; refused while one is running.

    Example: stafette lab rm ftab-6-0001 ftab-6-0002
    """
    with _libraries():
        from stafette.lab.series import archive
    every_series = list({series.folder: series for series in (_find(name, runs) for name in names)}.values())
    if not yes:
        series_names = ", ".join(series.name for series in every_series)
        run_count = sum(run.state == "done" for series in every_series for run in series.record.runs)
        plural = "" if run_count == 1 else "s"
        typer.confirm(f"Delete {series_names} with {run_count} run{plural}?", abort=True, err=True)
    for series in every_series:
        archive.remove(series)
        say(f"{series.name} is deleted")
    if as_json:
        show_json({"removed": [series.name for series in every_series]})


@app.command()
def export(
    name: Name,
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE.zip]", help="Default: NAME.zip in the working folder.")
    ] = None,
    runs: Runs = None,
    as_json: Json = False,
) -> None:
    """Pack a series with all its runs into a zip file, and print the file's name.

    Example: stafette lab export ftab-6-0001
    """
    with _libraries():
        from stafette.lab.series import archive
    series = _find(name, runs)
    target = file or Path(f"{series.name}.zip")
    archive.pack(series, target)
    _show_result({"file": str(target)}, as_json=as_json)


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE.zip", help="A file that `stafette lab export` wrote.")],
    runs: Runs = None,
    as_json: Json = False,
) -> None:
    """Import an exported series, and print its name, with the next number if the name is taken.

    Example: stafette lab import ftab-6-0001.zip
    """
    with _libraries():
        from stafette.lab.series import archive
    if not file.is_file():
        raise InvalidRequest(f"there is no file {file}")
    from stafette.cli import privileges

    keep_private()
    series = archive.unpack(file, _folder(runs))
    privileges.give_to_owner(series.folder)
    _show_result({"series": series.name, "folder": str(series.folder)}, as_json=as_json)
