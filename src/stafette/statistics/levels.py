"""Factors with two levels, from a table of runs.

The higher level is +1: numbers sort as numbers (8 before 16, and 4 is 4.0), all else as words. Errors name the factor
and the run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from stafette.errors import InvalidRequest

Level: TypeAlias = str | float
Where: TypeAlias = Callable[[int], str]

MAX_FACTORS = 10
"""1024 combinations: nobody runs more, and each further factor makes the sign table four times as large."""

JOINT = ":"
"""Between the names of factors in the name of their interaction."""

RESERVED = ("mean", "error")
"""Names of rows beside the factors, among effects and shares."""


class Factor(msgspec.Struct, frozen=True):
    """A factor and its levels as given: `low` is -1, `high` is +1."""

    name: str
    low: Level
    high: Level


def run_number(index: int) -> str:
    """The default name of a run in errors."""
    return f"run {index + 1}"


def number(level: Level) -> float | None:
    """A level as a number; None if it is a word; infinity and "nan" count as words."""
    try:
        value = float(level)
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in str(level) else None


def check_names(names: Sequence[str]) -> None:
    """Raises InvalidRequest for names that would give two effects the same name."""
    if not names:
        raise InvalidRequest("there is no factor; name at least one")
    if len(names) > MAX_FACTORS:
        raise InvalidRequest(f"{len(names)} factors are more than {MAX_FACTORS}; leave out those that matter least")
    for name in names:
        if not name or JOINT in name:
            raise InvalidRequest(
                f"a factor cannot be named {name!r}: a name is not empty and has no {JOINT!r}; rename it"
            )
        if name in RESERVED:
            raise InvalidRequest(f"a factor cannot be named {name!r}, which is a row of the result; rename the column")
        if list(names).count(name) > 1:
            raise InvalidRequest(f"factor {name} is named twice; name it once")


def factor_of(name: str, levels: Sequence[Level], where: Where = run_number) -> tuple[Factor, NDArray[np.int8]]:
    """The factor that has these levels in the runs, and its sign in each run."""
    numbers = [number(level) for level in levels]
    numeric = [value for value in numbers if value is not None]
    keys: list[Level] = list(numeric) if len(numeric) == len(levels) else [str(level).strip() for level in levels]
    first_index = {key: index for index, key in reversed(list(enumerate(keys)))}
    if len(first_index) == 1:
        raise InvalidRequest(f"column {name} has one level ({levels[0]}) in every row; a factor has two")
    if len(first_index) > 2:
        third = sorted(first_index.values())[2]
        listing = ", ".join(str(levels[first_index[key]]) for key in _sort_levels(first_index)[:5]) + (
            ", …" if len(first_index) > 5 else ""
        )
        raise InvalidRequest(
            f"column {name} has {len(first_index)} levels ({listing}), the third in {where(third)};"
            " keep the rows of two"
        )
    low, high = _sort_levels(first_index)
    signs = np.array([1 if key == high else -1 for key in keys], dtype=np.int8)
    return Factor(name, levels[first_index[low]], levels[first_index[high]]), signs


def factors_of(
    columns: Mapping[str, Sequence[Level]], where: Where = run_number
) -> tuple[tuple[Factor, ...], NDArray[np.int8]]:
    """All factors of a table, and the sign of each (a column) in each run (a row)."""
    check_names(list(columns))
    lengths = {name: len(levels) for name, levels in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InvalidRequest(f"the factors differ in their number of runs ({lengths}); give every run all of them")
    if not next(iter(lengths.values())):
        raise InvalidRequest("there is no run; give one row for each")
    factor_signs = [factor_of(name, levels, where) for name, levels in columns.items()]
    return tuple(factor for factor, _ in factor_signs), np.column_stack([signs for _, signs in factor_signs])


def _sort_levels(keys: Mapping[Level, int]) -> list[Level]:
    return sorted(
        keys, key=lambda key: (str(key) if isinstance(key, str) else "", key if isinstance(key, float) else 0)
    )
