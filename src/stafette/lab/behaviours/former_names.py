"""Names that behaviours used before; they work for one more version."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from stafette.lab.behaviours.behaviour import ClientContext


class Scene(ClientContext):
    """ClientContext, with the argument names it had before."""

    def __init__(
        self,
        group: str,
        number: int,
        groups: Mapping[str, int],
        queues: tuple[str, ...],
        chance: random.Random | None = None,
        joined: Callable[[], int] | None = None,
        *,
        rng: random.Random | None = None,
    ) -> None:
        super().__init__(group, number, groups, queues, chance or rng, joined)  # type: ignore[arg-type]  # one of them is given


def find(name: str) -> Any:
    """What `stafette.lab.behaviours` calls differently now."""
    if name != "Scene":
        raise AttributeError(f"module 'stafette.lab.behaviours' has no attribute {name!r}")
    warnings.warn(
        "stafette.lab.behaviours.Scene is now stafette.lab.behaviours.ClientContext", FutureWarning, stacklevel=3
    )
    return Scene
