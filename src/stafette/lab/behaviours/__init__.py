"""What load clients do: the behaviours of the five reports by name, and the experiment's own from a file."""

from __future__ import annotations

import difflib
import importlib.util
import itertools
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from stafette.errors import InvalidRequest
from stafette.lab.behaviours import former_names
from stafette.lab.behaviours.alice import Alice
from stafette.lab.behaviours.behaviour import Behaviour, ClientContext, Parameters
from stafette.lab.behaviours.bob import Bob
from stafette.lab.behaviours.carl import Carl
from stafette.lab.behaviours.consumer import Consumer
from stafette.lab.behaviours.database_only import DatabaseOnly
from stafette.lab.behaviours.echo import Echo
from stafette.lab.behaviours.larry import Larry
from stafette.lab.behaviours.maruja import Maruja
from stafette.lab.behaviours.mix import Mix
from stafette.lab.behaviours.one_way import OneWay
from stafette.lab.behaviours.paired import Paired
from stafette.lab.behaviours.producer import Producer
from stafette.lab.behaviours.rick import Rick
from stafette.lab.behaviours.tola import Tola

__all__ = ["BUILT_IN", "Behaviour", "ClientContext", "Parameters", "check", "find"]

BUILT_IN: dict[str, type[Behaviour]] = {
    "alice": Alice,
    "bob": Bob,
    "carl": Carl,
    "consumer": Consumer,
    "database_only": DatabaseOnly,
    "echo": Echo,
    "larry": Larry,
    "maruja": Maruja,
    "mix": Mix,
    "one_way": OneWay,
    "paired": Paired,
    "producer": Producer,
    "rick": Rick,
    "tola": Tola,
}

_numbers = itertools.count(1)


def __getattr__(name: str) -> Any:
    return former_names.find(name)


def find(name: str, folder: Path | None) -> type[Behaviour]:
    """The class of a built-in name, or of "file.py:Class" in the folder; without a folder, no file is imported."""
    if ":" in name:
        if folder is None:
            raise InvalidRequest(
                f"the behaviour {name} is a file that belongs to a series, and those are never run; run the experiment"
                " from a folder of your own, or use a built-in behaviour"
            )
        return _find_in_file(name, folder)
    if name in BUILT_IN:
        return BUILT_IN[name]
    if name.endswith(".py"):
        raise InvalidRequest(f'the behaviour {name} does not say which class; write "{name}:ClassName"')
    matches = difflib.get_close_matches(name.lower(), BUILT_IN, n=1)
    hint = f"did you mean {matches[0]}; there are" if matches else "there are"
    raise InvalidRequest(
        f'there is no behaviour {name}; {hint} {", ".join(BUILT_IN)}, or one of your own as "file.py:Class"'
    )


def check(behaviour: type[Behaviour], parameters: dict[str, Any]) -> Parameters:
    """The parameters as a model of the behaviour; raises pydantic.ValidationError."""
    return behaviour.Parameters.model_validate(parameters)


def _find_in_file(name: str, folder: Path) -> type[Behaviour]:
    file, _, class_name = name.rpartition(":")
    path = (folder / file).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise InvalidRequest(f"the behaviour file {file} lies outside {folder}; put it beside the experiment")
    if path.suffix != ".py":
        raise InvalidRequest(f"the behaviour file {file} is not a Python file; its name must end in .py")
    if not path.is_file():
        raise InvalidRequest(f"there is no behaviour file {file} in {folder}")
    behaviour = getattr(_load(path, file), class_name, None)
    if behaviour is None:
        raise InvalidRequest(f"there is no class {class_name or '(no name)'} in {file}; name one that it defines")
    if not (isinstance(behaviour, type) and issubclass(behaviour, Behaviour)):
        raise InvalidRequest(
            f"{class_name} in {file} is not a behaviour; derive it from stafette.lab.behaviours.Behaviour"
        )
    return behaviour


def _load(path: Path, file: str) -> ModuleType:
    """Import a file, each time again, because it may have been edited since."""
    spec = importlib.util.spec_from_file_location(f"stafette_own_behaviour_{next(_numbers)}", path)
    if spec is None or spec.loader is None:
        raise InvalidRequest(f"{file} cannot be imported; its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where pydantic and dataclasses look up names in annotations
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[spec.name]
        raise InvalidRequest(f"{file} cannot be imported: {_reason(error, path)}") from error
    return module


def _reason(error: BaseException, path: Path) -> str:
    """Why an import failed, in one line, with the line in the file."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
    text = error.msg if isinstance(error, SyntaxError) else " ".join(str(error).split())
    return f"{type(error).__name__}{f' in line {line}' if line else ''}: {text}"
