"""Experiment files: those made on the pages, which can be changed, and the library that comes with Stafette."""

from __future__ import annotations

import contextlib
import os
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import stafette
from stafette.errors import InvalidRequest

LIBRARY = Path(stafette.__file__).parents[2] / "experiments"
"""Beside the package in a checkout; elsewhere there is none."""
MOST_BYTES = 200_000
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,59}")

Kind = Literal["own", "library"]


class ExperimentNotFound(InvalidRequest):
    """There is no such experiment."""


@dataclass(frozen=True)
class Listed:
    """An experiment in a list."""

    kind: Kind
    name: str
    path: Path
    title: str
    design: str
    profiles: tuple[str, ...]


class Experiments:
    """The files of experiments."""

    def __init__(self, folder: Path, library: Path = LIBRARY) -> None:
        self.folder = folder.resolve()
        self._library = library

    def listed(self, kind: Kind) -> list[Listed]:
        """All of a kind, by name."""
        return [_listed(kind, name, path) for name, path in sorted(self._files(kind))]

    def find(self, kind: Kind, name: str) -> Listed:
        """One of them; a name is only ever compared, never made into a path."""
        for known, path in self._files(kind):
            if known == name:
                return _listed(kind, name, path)
        where = "the library" if kind == "library" else str(self.folder)
        raise ExperimentNotFound(f"there is no experiment {name} in {where}")

    def text(self, found: Listed) -> str:
        """What is in the file."""
        try:
            return found.path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidRequest(f"cannot read {found.path}: {error}") from error

    def save(self, name: str, text: str, before: str | None) -> Listed:
        """Keep a text under a name, whole or not at all; `before` is the name under which it was opened."""
        check_name(name)
        target = self.folder / f"{name}.toml"
        if name != before and target.exists():
            raise InvalidRequest(f"there is an experiment {name} already; choose another name, or edit that one")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            unfinished = self.folder / f".{name}.toml.{os.getpid()}"
            with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            unfinished.rename(target)
        except OSError as error:
            raise InvalidRequest(f"cannot write {target}: {error.strerror}") from error
        return _listed("own", name, target)

    def delete(self, name: str) -> None:
        """Remove an experiment's file; series that were made with it have their own copy."""
        try:
            self.find("own", name).path.unlink()
        except OSError as error:
            raise InvalidRequest(f"cannot remove {name}: {error.strerror}") from error

    def free_name(self, wanted: str) -> str:
        """A name for a copy."""
        taken = {name for name, _ in self._files("own")}
        stem = wanted.rpartition("/")[2][:50]
        numbers = (f"{stem}-copy{number if number > 1 else ''}" for number in range(1, len(taken) + 2))
        return next(name for name in numbers if name not in taken)

    def _files(self, kind: Kind) -> Iterator[tuple[str, Path]]:
        folder = self._library if kind == "library" else self.folder
        pattern = "**/*.toml" if kind == "library" else "*.toml"
        for path in folder.glob(pattern):
            if not path.name.startswith("."):
                yield path.relative_to(folder).with_suffix("").as_posix(), path


def check_name(name: str) -> None:
    """Refuse what is no name for an experiment, which is also the name of its file and of its series."""
    if _NAME.fullmatch(name) is None:
        raise InvalidRequest(
            f"{name[:80]!r} cannot be the name of an experiment; use at most 60 of a-z, 0-9 and -, and no - at first"
        )


def _listed(kind: Kind, name: str, path: Path) -> Listed:
    tables: dict[str, object] = {}
    with contextlib.suppress(OSError, ValueError, RecursionError):  # what is wrong is told when it is opened
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    design, profiles = tables.get("design"), tables.get("profiles")
    return Listed(
        kind,
        name,
        path,
        title=str(tables.get("title", "")),
        design=str(design.get("kind", "single")) if isinstance(design, dict) else "single",
        profiles=tuple(profiles) if isinstance(profiles, dict) else (),
    )
