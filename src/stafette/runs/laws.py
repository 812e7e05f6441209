"""Operational laws that a run obeys whatever the system is: each function compares, and says in a line what it sees."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stafette.runs.closed_loop import ClosedLoop
from stafette.statistics import queueing

LITTLE_TOLERANCE = 0.05
"""A client is somewhere in its cycle (a step and the pause after it) at each bound of the window, so what is measured
may be off by up to one cycle of the window's length. 5 % allow for that in windows of 20 cycles or more; clients that
lose a pause or a request in each step are off by far more. A shorter window is told to be too short."""
TIERS_TOLERANCE = 0.01
"""Clocks of two machines agree only so far."""
BUSY_TOLERANCE = 0.05
"""Samples are not taken on the dot."""


@dataclass(frozen=True)
class Law:
    """What a law demands beside what was measured."""

    name: str
    expected: float | None
    """None: the law sets no bound, and only says what follows."""
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

    X and R are of all requests, failed ones too, for they take their time. S is the number of steps per second: one
    step may be several requests, and clients pause once per step.
    """
    listed = list(flows)
    steps_per_s = sum(flow.per_s for flow in listed) if loop.steps_per_s is None else loop.steps_per_s
    waiting = sum(queueing.population(flow.per_s, flow.mean_s) for flow in listed)
    clients = waiting + queueing.population(steps_per_s, loop.think_time_s)
    ok = abs(clients - loop.clients) <= LITTLE_TOLERANCE * loop.clients
    detail = (
        f"Little's law {'holds' if ok else 'does not hold'}: X·R + S·Z = {clients:,.1f} for {loop.clients:,} clients"
    )
    if not ok:
        detail += "; look for time that clients spend outside of requests, or too short a window"
    return Law("little", float(loop.clients), clients, ok, detail)


def utilisation(part: str, cores: float, *, capacity: float | None, per_s: float) -> Law:
    """U = X·S: the cores that a part of the system used, which cannot be more than it has."""
    demand = f", {1000 * cores / per_s:.3g} ms of processor time per request" if per_s > 0 else ""
    ok = capacity is None or cores <= capacity * (1 + BUSY_TOLERANCE)
    return Law(f"utilisation of {part}", capacity, cores, ok, f"{part}: U = X·S = {cores:.2f} cores{demand}")


def tiers_add_up(client_ms: float, unexplained_ms: float) -> Law:
    """The phases of both tiers fit into the response time that the client saw."""
    explained = client_ms - unexplained_ms
    ok = unexplained_ms >= -TIERS_TOLERANCE * client_ms
    detail = f"of {client_ms:.3g} ms at the client, {explained:.3g} are its own and the broker's phases"
    if not ok:
        detail += ", which is more than there were; look at the clocks of the machines"
    return Law("tiers add up", client_ms, explained, ok, detail)
