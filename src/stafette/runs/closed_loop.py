"""What a run's settings say of its clients: how many, how long they think, and whether they form a closed loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class ClosedLoop(msgspec.Struct, frozen=True):
    """What Little's law needs to know of clients that wait for an answer before they go on."""

    clients: int
    think_time_s: float
    """Mean pause after each step."""
    steps_per_s: float | None = None
    """Of all clients, over the whole load; None: nobody counted them, so each step is taken to be one request."""


def client_counts(settings: Mapping[str, Any]) -> dict[str, int]:
    """How many clients each group has."""
    return {name: int(group["count"]) for name, group in settings.get("clients", {}).items()}


def mean_think_time_s(settings: Mapping[str, Any]) -> float | None:
    """Mean over all clients; None when there are none, or some belong to an open loop, in which nobody thinks."""
    groups = _groups(settings)
    if not groups or any(group.get("rate") is not None for group in groups):
        return None
    return sum(int(group["count"]) * _think_time_s(group) for group in groups) / sum(
        int(group["count"]) for group in groups
    )


def closed_loop(settings: Mapping[str, Any], steps_per_s: float | None = None) -> ClosedLoop | None:
    """The closed loop that the clients form; None when Little's law cannot be checked.

    Clients of an open loop wait for nobody, a ramp changes their number, and where groups think for different times one
    would have to know the steps of each.
    """
    groups = _groups(settings)
    think_times = {_think_time_s(group) for group in groups}
    if len(think_times) != 1 or any(group.get("rate") or group.get("ramp") for group in groups):
        return None
    return ClosedLoop(sum(int(group["count"]) for group in groups), think_times.pop(), steps_per_s)


def _groups(settings: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [group for group in settings.get("clients", {}).values() if int(group["count"])]


def _think_time_s(group: Mapping[str, Any]) -> float:
    """The mean of a number that varies, as experiment files write it."""
    distribution = group.get("think_time", 0.0)
    if not isinstance(distribution, Mapping):
        return float(distribution)
    ((kind, value),) = distribution.items()
    if kind in ("fixed", "exponential"):
        return float(value)
    if kind in ("uniform", "choice"):
        return sum(map(float, value)) / len(value)
    raise ValueError(f"there is no distribution {kind}")
