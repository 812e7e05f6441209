"""The options of an analysis; here, so that they are checked before Spark is loaded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from stafette.errors import InvalidRequest
from stafette.statistics.intervals import LEVEL

LIMITS_MS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)


@dataclass(frozen=True)
class Options:
    """The options of an analysis; invalid ones raise InvalidRequest."""

    window_s: float = 1.0
    limits_ms: Sequence[float] = LIMITS_MS
    level: float = LEVEL
    warm_up: float | Literal["auto"] | None = None
    """Seconds from the start of the load, or "auto" for MSER-5; None: as configured in the run."""

    include_invalid: bool = False
    """Whether results over several runs include invalid runs."""

    def __post_init__(self) -> None:
        if not 0.001 <= self.window_s <= 86_400:
            raise InvalidRequest(f"a window of {self.window_s:g} s cannot be; use 0.001 to 86400")
        if not 0 < self.level < 1:
            raise InvalidRequest(f"a level of confidence of {self.level:g} is not between 0 and 1; 0.95 is usual")
        if isinstance(self.warm_up, float | int) and not 0 <= self.warm_up < math.inf:
            raise InvalidRequest(f"a warm-up of {self.warm_up:g} s cannot be; give 0 or more")
        for limit in self.limits_ms:
            if not 0 < limit < math.inf or abs(limit * 1000 - round(limit * 1000)) > 1e-6:
                raise InvalidRequest(f"a limit of {limit:g} ms cannot be; give whole microseconds, such as 0.25")

    @property
    def limits_us(self) -> list[int]:
        """The limits in microseconds."""
        return [round(limit * 1000) for limit in self.limits_ms]
