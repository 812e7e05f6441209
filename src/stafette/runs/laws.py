"""Operational laws, which hold for every system: each function compares a law with a run and describes the result."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stafette.runs.closed_loop import ClosedLoop
from stafette.statistics import queueing

LITTLE_TOLERANCE = 0.05
"""At each bound of the window a client is somewhere in its cycle (a step and the pause after it), so the measurement
may be off by up to one cycle per window. 5 % allow for that in windows of 20 cycles or more. Clients that lose a pause
or a request in each step are off by far more. For a shorter window the detail says that it may be too short."""
TIERS_TOLERANCE = 0.01
"""Allows for the clock error between two machines."""
BUSY_TOLERANCE = 0.05
"""Allows for samples that are taken a little late."""


@dataclass(frozen=True)
class Law:
    """The value that a law requires, and the measured one."""

    name: str
    expected: float | None
    """None: the law sets no bound here."""
    measured: float
    ok: bool
    detail: str


@dataclass(frozen=True)
class Flow:
    """Requests of one kind."""

    per_s: float
    mean_s: float


def littles_law(flows: Iterable[Flow], loop: ClosedLoop) -> Law:
    """N = X·R + S·Z: each client is in a request, or pauses after a step.

    X and R are of all requests, also failed ones, because they take time too. S is the number of steps per second: a
    step may be several requests, and clients pause once per step.
    """
    flow_list = list(flows)
    steps_per_s = sum(flow.per_s for flow in flow_list) if loop.steps_per_s is None else loop.steps_per_s
    in_requests = sum(queueing.population(flow.per_s, flow.mean_s) for flow in flow_list)
    clients = in_requests + queueing.population(steps_per_s, loop.think_time_s)
    ok = abs(clients - loop.clients) <= LITTLE_TOLERANCE * loop.clients
    detail = (
        f"Little's law {'holds' if ok else 'does not hold'}: X·R + S·Z = {clients:,.1f} for {loop.clients:,} clients"
    )
    if not ok:
        detail += "; look for time that clients spend outside of requests, or too short a window"
    return Law("little", float(loop.clients), clients, ok, detail)


def utilisation(part: str, cores: float, *, capacity: float | None, per_s: float) -> Law:
    """U = X·S: the cores that a part of the system used; at most the cores that it has."""
    demand = f", {1000 * cores / per_s:.3g} ms of processor time per request" if per_s > 0 else ""
    ok = capacity is None or cores <= capacity * (1 + BUSY_TOLERANCE)
    return Law(f"utilisation of {part}", capacity, cores, ok, f"{part}: U = X·S = {cores:.2f} cores{demand}")


def tiers_add_up(client_ms: float, unexplained_ms: float) -> Law:
    """The phases of both tiers add up to at most the client's response time."""
    explained = client_ms - unexplained_ms
    ok = unexplained_ms >= -TIERS_TOLERANCE * client_ms
    detail = f"of {client_ms:.3g} ms at the client, {explained:.3g} are its own and the broker's phases"
    if not ok:
        detail += ", which is more than the total; check the clocks of the machines"
    return Law("tiers add up", client_ms, explained, ok, detail)
