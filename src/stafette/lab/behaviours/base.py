"""What a behaviour is: what one client does, one step at a time.

The generator calls `begin` once, before the load starts, and then `step` again and again: when the last one has ended
and the think time has passed (closed loop), or when the clock says so (open loop: several steps of one client may then
be under way at once). A step should take a few requests at most, and none that waits longer than `parameters.wait`, so
that a run can end when its time is up. Requests are counted and timed by the client's trace; a step need not.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pydantic
from pydantic import Field

from stafette.client.aio import Client


class Parameters(pydantic.BaseModel):
    """What every behaviour lets an experiment say; each adds its own."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    queues: list[str] | None = Field(default=None, min_length=1)
    """The queues it uses; by default all that were made for the run."""

    wait: float = Field(default=1.0, ge=0, le=10)
    """Seconds a read waits for a message in the broker."""

    retry_delay: float | None = Field(default=None, ge=0)
    """Seconds before a read that found nothing is tried again; by default reads wait in the broker instead."""


@dataclass(frozen=True)
class Scene:
    """What a client finds around it."""

    group: str
    number: int
    """Of this client in its group, from 1."""
    groups: Mapping[str, int]
    """How many clients each group has; they are called GROUP-1, GROUP-2, …"""
    queues: tuple[str, ...]
    """All queues that were made for the run."""
    chance: random.Random
    """The client's own, seeded from the experiment's seed."""
    joined: Callable[[], int] | None = None
    """How many clients of the group a ramp has let in so far; None: all."""

    @property
    def name(self) -> str:
        """The client's name."""
        return f"{self.group}-{self.number}"

    def another(self) -> str:
        """The name of another client of the group that has begun, chosen at random; one's own when there is none."""
        others = (self.joined() if self.joined else self.groups[self.group]) - 1
        if others < 1:
            return self.name
        number = self.chance.randint(1, others)
        return f"{self.group}-{number + (number >= self.number)}"


class Behaviour:
    """What one client does. Subclass it, and name the class in an experiment file."""

    Parameters: ClassVar[type[Parameters]] = Parameters
    """What an experiment may say to it."""

    direct: ClassVar[bool] = False
    """Whether its client talks to the database itself, without a broker."""

    def __init__(self, me: Client, scene: Scene, parameters: Any) -> None:
        self.me = me
        self.scene = scene
        self.parameters = parameters
        self.queues: tuple[str, ...] = tuple(parameters.queues or scene.queues)

    async def begin(self) -> None:
        """Prepare; the load has not started yet."""

    async def step(self) -> None:
        """Do one thing."""
        raise NotImplementedError

    def any_queue(self) -> str:
        """One of its queues, chosen at random."""
        return self.scene.chance.choice(self.queues)
