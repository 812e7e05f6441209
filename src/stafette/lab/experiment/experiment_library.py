"""Experiment files: those edited on the pages, and the library that comes with Stafette, which cannot be changed."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import stafette
from stafette.errors import InvalidRequest, NotFound
from stafette.files import write_atomically
from stafette.lab.experiment import toml_limits
from stafette.lab.experiment.experiment_file import read_text

LIBRARY = Path(stafette.__file__).parents[2] / "experiments"
"""Beside the package in a checkout; an installed package has none."""
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,59}")

Kind = Literal["own", "library"]


class ExperimentNotFound(NotFound):
    """There is no such experiment."""


@dataclass(frozen=True)
class ExperimentEntry:
    """An experiment file, with what a list shows of it."""

    kind: Kind
    name: str
    path: Path
    title: str
    design: str
    profiles: tuple[str, ...]


class Experiments:
    """The experiment files of a folder and of the library."""

    def __init__(self, folder: Path, library: Path = LIBRARY) -> None:
        self.folder = folder.resolve()
        self._library = library

    def entries(self, kind: Kind) -> list[ExperimentEntry]:
        """All experiments of a kind, by name."""
        return [_entry(kind, name, path) for name, path in sorted(self._files(kind))]

    def find(self, kind: Kind, name: str) -> ExperimentEntry:
        """An experiment by its name, which is compared, never made into a path."""
        for file_name, path in self._files(kind):
            if file_name == name:
                return _entry(kind, name, path)
        location = "the library" if kind == "library" else str(self.folder)
        raise ExperimentNotFound(f"there is no experiment {name} in {location}")

    def text(self, entry: ExperimentEntry) -> str:
        """The text of an experiment file."""
        return read_text(entry.path)

    def save(self, name: str, text: str, before: str | None) -> ExperimentEntry:
        """Save a text under a name, atomically; `before` is the name under which it was opened."""
        check_name(name)
        target = self.folder / f"{name}.toml"
        if name != before and target.exists():
            raise InvalidRequest(f"there is an experiment {name} already; choose another name, or edit that one")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_atomically(target, text, mode=0o600)
        except OSError as error:
            raise InvalidRequest(f"cannot write {target}: {error.strerror}") from error
        return _entry("own", name, target)

    def delete(self, name: str) -> None:
        """Delete an experiment's file; its series have their own copy."""
        try:
            self.find("own", name).path.unlink()
        except OSError as error:
            raise InvalidRequest(f"cannot delete {name}: {error.strerror}") from error

    def free_name(self, original: str) -> str:
        """An unused name for a copy."""
        names = {name for name, _ in self._files("own")}
        stem = original.rpartition("/")[2][:50]
        candidates = (f"{stem}-copy{number if number > 1 else ''}" for number in range(1, len(names) + 2))
        return next(name for name in candidates if name not in names)

    def _files(self, kind: Kind) -> Iterator[tuple[str, Path]]:
        folder = self._library if kind == "library" else self.folder
        pattern = "**/*.toml" if kind == "library" else "*.toml"
        for path in folder.glob(pattern):
            if not path.name.startswith("."):
                yield path.relative_to(folder).with_suffix("").as_posix(), path


def check_name(name: str) -> None:
    """Raise InvalidRequest unless this can be the name of an experiment, of its file and of its series."""
    if _NAME.fullmatch(name) is None:
        raise InvalidRequest(
            f"{name[:80]!r} cannot be the name of an experiment;"
            " use at most 60 of a-z, 0-9 and -, and do not begin with -"
        )


def _entry(kind: Kind, name: str, path: Path) -> ExperimentEntry:
    tables: dict[str, object] = {}
    with contextlib.suppress(InvalidRequest, OSError, ValueError, RecursionError):  # the editor reports the problems
        tables = toml_limits.loads(read_text(path))
    design, profiles = tables.get("design"), tables.get("profiles")
    return ExperimentEntry(
        kind,
        name,
        path,
        title=str(tables.get("title", "")),
        design=str(design.get("kind", "single")) if isinstance(design, dict) else "single",
        profiles=tuple(profiles) if isinstance(profiles, dict) else (),
    )
