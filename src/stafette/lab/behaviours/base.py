"""What a behaviour is: what one client does, one step at a time.

The generator calls `begin` once, before the load starts, and then `step` again and again: when the last one has ended
and the think time has passed (closed loop), or when the clock says so (open loop: several steps of one client may then
be under way at once). A step should take a few requests at most, and none that waits longer than `parameters.wait`, so
that a run can end when its time is up. Requests are counted and timed by the client's trace; a step need not.
"""

from __future__ import annotations

import difflib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pydantic
from pydantic import Field

from stafette.client.aio import Client
from stafette.errors import InvalidRequest
from stafette.lab.experiment.file_problems import Problem, out_of_place

Contradictions = Iterator[tuple[str, str]]
"""Keys of [clients.NAME] whose values cannot be, each with the reason: what would have to be, and what to do."""


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
        for problem in type(self).problems(parameters, scene.group, scene.groups, scene.queues):
            raise InvalidRequest(problem.reason)
        self.me = me
        self.scene = scene
        self.parameters = parameters
        self.queues: tuple[str, ...] = tuple(parameters.queues or scene.queues)

    @classmethod
    def contradictions(
        cls, parameters: Any, group: str, groups: Mapping[str, int], queues: Sequence[str]
    ) -> Contradictions:
        """What in a group of this behaviour does not fit the rest of the experiment, as a scene describes it.

        It is asked before anything starts. Override it for what a behaviour needs; a `partner` always needs clients.
        """
        partner = getattr(parameters, "partner", None)
        if isinstance(partner, str):
            yield from without_clients("partner", partner, groups)

    @classmethod
    def problems(
        cls, parameters: Any, group: str, groups: Mapping[str, int], queues: Sequence[str]
    ) -> Iterator[Problem]:
        """The contradictions in sentences, with the keys they are about."""
        for key, reason in cls.contradictions(parameters, group, groups, queues):
            values = {"count": groups[group], **parameters.model_dump(mode="json", include={key})}
            yield out_of_place(("clients", group, key), values.get(key), reason)

    async def begin(self) -> None:
        """Prepare; the load has not started yet."""

    async def step(self) -> None:
        """Do one thing."""
        raise NotImplementedError

    def any_queue(self) -> str:
        """One of its queues, chosen at random."""
        return self.scene.chance.choice(self.queues)


def without_clients(key: str, wanted: str, groups: Mapping[str, int]) -> Contradictions:
    """Unless a group that a key names has clients."""
    if wanted not in groups:
        near = difflib.get_close_matches(wanted, groups, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(groups)}"
        yield key, f"there is no such group; {hint}"
    elif not groups[wanted]:
        yield key, f"that group has no clients; set clients.{wanted}.count to at least 1"
