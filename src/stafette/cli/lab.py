"""`stafette lab`: the laboratory. Its libraries are loaded by the commands that need them, and by no other."""

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

if TYPE_CHECKING:
    from stafette.lab.series.series_folder import Series

app = typer.Typer(
    help="The laboratory: run experiments, look at them, compare them.", no_args_is_help=True, add_completion=False
)

Runs = Annotated[Path | None, typer.Option("--runs", help="Folder of the series; by default runs/ in the data folder.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="A series, an experiment (its newest series), or a folder.")]


@contextlib.contextmanager
def _libraries() -> Iterator[None]:
    """Imports of the laboratory: say what is missing."""
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
    folder = Path(name).resolve()  # such as "."
    return series_folder.find(_folder(runs), str(folder) if (folder / SERIES_FILE).is_file() else name)


def _show(made: dict[str, object], *, as_json: bool) -> None:
    """Print what a command has made: its name alone, which can be given to the next command, or all in JSON."""
    if as_json:
        show_json(made)
    else:
        print(next(iter(made.values())))


@app.command()
def run(
    file: Annotated[Path, typer.Argument(metavar="EXPERIMENT.toml", help="What to run; see docs/experiments.md.")],
    profile: Annotated[str | None, typer.Option("--profile", help="A profile of the file to lay over it.")] = None,
    runs: Runs = None,
    new: Annotated[bool, typer.Option("--new", help="Begin a new series, even if one is unfinished.")] = False,
    report: Annotated[bool, typer.Option("--report", help="End with the analysis and its report.")] = False,
    as_json: Json = False,
) -> None:
    """Run an experiment, or go on with its unfinished series, and print what each run came to.

    Exit code 1: a run failed or cannot be trusted; 99: a threshold was missed; 130: broken off with Ctrl-C.

    Example: stafette lab run experiments/ftab-6.toml --profile quick
    """
    again = ["stafette", "lab", "run", str(file)]
    again += ["--profile", profile] if profile else []
    again += ["--runs", str(runs)] if runs else []
    try:
        with _libraries():
            from stafette.cli import lab_make
        lab_make.make(file, profile=profile, runs=_folder(runs), new=new, report=report, as_json=as_json, again=again)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


@app.command()
def ls(runs: Runs = None, as_json: Json = False) -> None:
    """List all series, the newest last.

    Example: stafette lab ls
    """
    with _libraries():
        from stafette.cli import lab_show
    lab_show.listed(_folder(runs), as_json=as_json)


@app.command()
def show(
    name: Name,
    place: Annotated[int | None, typer.Option("--run", min=1, help="One run in full, by its place.")] = None,
    runs: Runs = None,
    as_json: Json = False,
) -> None:
    """Show a series: its settings, and each point over its repetitions with 95 % intervals; or one of its runs.

    Example: stafette lab show ftab-6-0001 --run 3
    """
    with _libraries():
        from stafette.cli import lab_show
    found = _find(name, runs)
    if place is None:
        lab_show.shown(found, as_json=as_json)
    else:
        lab_show.run_shown(found, place, as_json=as_json)


@app.command()
def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="The series to compare with.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The series to compare.")],
    runs: Runs = None,
    as_json: Json = False,
) -> None:
    """Compare two series point by point, with 95 % intervals, and show which settings differ.

    Example: stafette lab compare ftab-6-0001 ftab-6-0002
    """
    with _libraries():
        from stafette.cli import lab_compare
    lab_compare.compared(_find(a, runs), _find(b, runs), as_json=as_json)


@app.command()
def clone(
    name: Name,
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="By default EXPERIMENT-copy.toml in the working folder.")
    ] = None,
    runs: Runs = None,
    as_json: Json = False,
) -> None:
    """Write the experiment of a series to a file, with the behaviours it brought along; print the file's name.

    Example: stafette lab clone ftab-6-0001 my-own.toml
    """
    with _libraries():
        from stafette.lab.series import archive
    found = _find(name, runs)
    target = file or Path(f"{found.record.experiment}-copy.toml")
    written = archive.clone(found, target)
    _show({"file": str(target), "behaviours": [str(path) for path in written if path != target]}, as_json=as_json)
    profile = f" --profile {found.record.profile}" if found.record.profile else ""
    if ":***@" in target.read_text():
        say("the password of the database was not kept; put it in again")
    say(f"edit it, and run it with `stafette lab run {target}{profile}`")


@app.command()
def rm(
    names: Annotated[list[str], typer.Argument(metavar="NAME…", help="Series, by name or folder.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    runs: Runs = None,
    as_json: Json = False,
) -> None:
    """Remove series with all their runs for good; not while they are being run.

    Example: stafette lab rm ftab-6-0001 ftab-6-0002
    """
    with _libraries():
        from stafette.lab.series import archive
    found = list({one.folder: one for one in (_find(name, runs) for name in names)}.values())
    if not yes:
        named = ", ".join(one.name for one in found)
        made = sum(run.state == "done" for one in found for run in one.record.runs)
        typer.confirm(f"Remove {named} with {made} runs?", abort=True, err=True)
    for one in found:
        archive.remove(one)
        say(f"{one.name} is removed")
    if as_json:
        show_json({"removed": [one.name for one in found]})


@app.command()
def export(
    name: Name,
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE.zip]", help="By default NAME.zip in the working folder.")
    ] = None,
    runs: Runs = None,
    as_json: Json = False,
) -> None:
    """Pack a series with all its runs into one file, and print the file's name.

    Example: stafette lab export ftab-6-0001
    """
    with _libraries():
        from stafette.lab.series import archive
    found = _find(name, runs)
    target = file or Path(f"{found.name}.zip")
    archive.pack(found, target)
    _show({"file": str(target)}, as_json=as_json)


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE.zip", help="Made by `stafette lab export`.")],
    runs: Runs = None,
    as_json: Json = False,
) -> None:
    """Take in a series that was exported, and print its name: the next number if the name is taken.

    Example: stafette lab import ftab-6-0001.zip
    """
    with _libraries():
        from stafette.lab.series import archive
    if not file.is_file():
        raise InvalidRequest(f"there is no file {file}")
    series = archive.unpack(file, _folder(runs))
    _show({"series": series.name, "folder": str(series.folder)}, as_json=as_json)
