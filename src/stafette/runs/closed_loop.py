"""The clients in a run's settings: their number, their think time, and whether they form a closed loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class ClosedLoop(msgspec.Struct, frozen=True):
    """The input of Little's law, for clients that wait for an answer before they continue."""

    clients: int
    think_time_s: float
    """Mean pause after each step."""
    steps_per_s: float | None = None
    """Of all clients, over the whole load; None: steps were not counted, so each request is taken as a step."""


def client_counts(settings: Mapping[str, Any]) -> dict[str, int]:
    """The number of clients in each group."""
    return {name: int(group["count"]) for name, group in settings.get("clients", {}).items()}


def mean_think_time_s(settings: Mapping[str, Any]) -> float | None:
    """Mean over all clients; None if there are none, or some belong to an open loop, which has no think time."""
    groups = _groups(settings)
    if not groups or any(group.get("rate") is not None for group in groups):
        return None
    return sum(int(group["count"]) * _think_time_s(group) for group in groups) / sum(
        int(group["count"]) for group in groups
    )


def closed_loop(settings: Mapping[str, Any], steps_per_s: float | None = None) -> ClosedLoop | None:
    """The closed loop that the clients form; None if Little's law cannot be checked.

    That is so for an open loop, for a ramp, which changes the number of clients, and for groups with different think
    times, as the steps of each group are not known.
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
