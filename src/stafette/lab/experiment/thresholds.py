"""Thresholds that a run must reach: a metric of the measured window, compared with a number."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

from stafette.errors import InvalidRequest

METRICS: dict[str, str] = {
    "throughput": "requests answered per second, including reads that returned nothing, without errors",
    "mean_ms": "mean response time, in milliseconds",
    "p50_ms": "the response time that half of the requests stayed within, in milliseconds",
    "p90_ms": "the response time that 90 % of the requests stayed within, in milliseconds",
    "p95_ms": "the response time that 95 % of the requests stayed within, in milliseconds",
    "p99_ms": "the response time that 99 % of the requests stayed within, in milliseconds",
    "max_ms": "the longest response time, in milliseconds",
    "errors": "requests that failed",
    "error_share": "requests that failed, as a share of all, between 0 and 1",
}
"""All metrics that a threshold may name, with descriptions."""

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
}
_COMPARISON = re.compile(r"\s*(<=|>=|==|<|>)\s*([-+]?[0-9][0-9_]*(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)\s*")


@dataclass(frozen=True)
class Threshold:
    """One comparison, such as `>= 1000`."""

    comparison: str
    number: float

    @classmethod
    def parse(cls, text: object) -> Threshold:
        """Parse a comparison of an experiment file."""
        match = _COMPARISON.fullmatch(text) if isinstance(text, str) else None
        number = float(match[2]) if match else math.inf
        if match is None or not math.isfinite(number):
            raise InvalidRequest(f'a threshold is one of {" ".join(_OPERATORS)} and a number, such as ">= 1000"')
        return cls(match[1], number)

    def holds(self, value: float | None) -> bool:
        """Whether a run passes; a run without a value (None) does not."""
        return value is not None and _OPERATORS[self.comparison](value, self.number)

    def __str__(self) -> str:
        return f"{self.comparison} {int(self.number) if self.number.is_integer() else self.number}"
