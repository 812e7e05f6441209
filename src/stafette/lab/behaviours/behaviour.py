"""A behaviour: what one client does, one step at a time.

The generator calls `begin` once, before the load starts, and then `step` again and again. In a closed loop it calls it
when the last step has ended and the think time has passed. In an open loop it calls it on schedule, so several steps of
one client may be in progress at once. A step should make a few requests, none of which waits longer than
`parameters.wait`, so that a run can end in time. The client's trace counts and times requests; a step need not.
"""

from __future__ import annotations

import difflib
import random
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import pydantic
from pydantic import Field

from stafette.client.aio import Client
from stafette.errors import InvalidRequest
from stafette.lab.experiment.file_problems import Problem, invalid_value

Contradictions = Iterator[tuple[str, str]]
"""Keys of [clients.NAME] with impossible values, each with the reason: what is required, and what to do."""


class Parameters(pydantic.BaseModel):
    """Parameters of every behaviour; subclasses add their own."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    queues: list[str] | None = Field(default=None, min_length=1)
    """The queues it uses; by default all queues created for the run."""

    wait: float = Field(default=1.0, ge=0, le=10)
    """Seconds a read waits for a message in the broker."""

    retry_delay: float | None = Field(default=None, ge=0)
    """Seconds before a read that returned nothing is repeated; by default reads wait in the broker instead."""


@dataclass(frozen=True)
class ClientContext:
    """What a client knows of itself and of the run."""

    group: str
    number: int
    """The number of this client in its group, from 1."""
    groups: Mapping[str, int]
    """The number of clients in each group; their names are GROUP-1, GROUP-2, …"""
    queues: tuple[str, ...]
    """All queues created for the run."""
    rng: random.Random
    """The client's own random numbers, seeded from the experiment's seed."""
    joined: Callable[[], int] | None = None
    """Returns how many clients of the group have joined so far; None if the group has no ramp."""

    @property
    def name(self) -> str:
        """The client's name."""
        return f"{self.group}-{self.number}"

    def another_client(self) -> str:
        """The name of another client of the group that has joined, drawn at random; its own if there is none."""
        other_clients = (self.joined() if self.joined else self.groups[self.group]) - 1
        if other_clients < 1:
            return self.name
        number = self.rng.randint(1, other_clients)
        return f"{self.group}-{number + (number >= self.number)}"

    @cached_property
    def chance(self) -> random.Random:
        """The name that `rng` had before; it works for one more version."""
        _warn_of("ClientContext.chance", "ClientContext.rng")
        return self.rng

    @cached_property
    def another(self) -> Callable[[], str]:
        """The name that `another_client` had before; it works for one more version."""
        _warn_of("ClientContext.another", "ClientContext.another_client")
        return self.another_client


class Behaviour:
    """What one client does. Subclass it, and name the class in an experiment file."""

    Parameters: ClassVar[type[Parameters]] = Parameters
    """The model of its parameters in an experiment file."""

    direct: ClassVar[bool] = False
    """Whether its client talks to the database directly, without a broker."""

    def __init__(self, client: Client, client_context: ClientContext, parameters: Any) -> None:
        group, groups, queues = client_context.group, client_context.groups, client_context.queues
        for problem in type(self).problems(parameters, group, groups, queues):
            raise InvalidRequest(problem.reason)
        self.client = client
        self.client_context = client_context
        self.parameters = parameters
        self.queues: tuple[str, ...] = tuple(parameters.queues or queues)

    @property
    def rng(self) -> random.Random:
        """The client's own random numbers."""
        return self.client_context.rng

    @classmethod
    def contradictions(
        cls, parameters: Any, group: str, groups: Mapping[str, int], queues: Sequence[str]
    ) -> Contradictions:
        """What in a group of this behaviour contradicts the rest of the experiment.

        Called before anything starts. Override it for what a behaviour needs; a `partner` always needs clients.
        """
        partner = getattr(parameters, "partner", None)
        if isinstance(partner, str):
            yield from check_group("partner", partner, groups)

    @classmethod
    def problems(
        cls, parameters: Any, group: str, groups: Mapping[str, int], queues: Sequence[str]
    ) -> Iterator[Problem]:
        """The contradictions as problems of the experiment file."""
        for key, reason in cls.contradictions(parameters, group, groups, queues):
            values = {"count": groups[group], **parameters.model_dump(mode="json", include={key})}
            yield invalid_value(("clients", group, key), values.get(key), reason)

    async def begin(self) -> None:
        """Prepare; the load has not started yet."""

    async def step(self) -> None:
        """Do one round of what the client does."""
        raise NotImplementedError

    def any_queue(self) -> str:
        """One of its queues, drawn at random."""
        return self.rng.choice(self.queues)

    @cached_property
    def me(self) -> Client:
        """The name that `client` had before; it works for one more version."""
        _warn_of("Behaviour.me", "Behaviour.client")
        return self.client

    @cached_property
    def scene(self) -> ClientContext:
        """The name that `client_context` had before; it works for one more version."""
        _warn_of("Behaviour.scene", "Behaviour.client_context")
        return self.client_context


def check_group(key: str, group: str, groups: Mapping[str, int]) -> Contradictions:
    """A contradiction if `key` names a group that does not exist or has no clients."""
    if group not in groups:
        matches = difflib.get_close_matches(group, groups, n=1)
        hint = f"did you mean '{matches[0]}'?" if matches else f"there are {', '.join(groups)}"
        yield key, f"there is no such group; {hint}"
    elif not groups[group]:
        yield key, f"that group has no clients; set clients.{group}.count to at least 1"


def _warn_of(former: str, current: str) -> None:
    """Tell whoever wrote a behaviour, whose module is not the main one: of DeprecationWarning nobody would hear."""
    warnings.warn(f"{former} is now {current}; the former name works for one more version", FutureWarning, stacklevel=3)
