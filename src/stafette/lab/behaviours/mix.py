"""ASL15's mixed load."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import lru_cache
from itertools import accumulate
from typing import Any, Literal

import pydantic
from pydantic import Field

from stafette.client.aio import Client
from stafette.lab.behaviours.behaviour import ClientContext
from stafette.lab.behaviours.parts import QueueSender, QueueSendParameters


class Shares(pydantic.BaseModel):
    """How often each kind of request is made, as weights; the default is never."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    peek: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Look at the next message of a queue."""
    query: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Ask which queues hold messages for this client."""
    send: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Send a message."""
    delete: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Remove the next message of a queue: a receive."""
    echo: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Have the broker send a body back."""

    @pydantic.model_validator(mode="after")
    def _check_not_all_zero(self) -> Shares:
        if not sum(self.weights().values()):
            raise ValueError("the shares are all zero; give at least one kind of request a share")
        return self

    def weights(self) -> dict[str, float]:
        """The shares by kind."""
        return {"peek": self.peek, "query": self.query, "send": self.send, "delete": self.delete, "echo": self.echo}


class MixParameters(QueueSendParameters):
    """What is sent, and the shares of requests. No read waits, so `wait` and `retry_delay` have no effect."""

    shares: Shares = Shares(peek=1, query=1, send=1, delete=1)
    """By default a quarter each of peek, query, send and delete."""

    each: Literal["step", "client"] = "step"
    """Whether the kind is drawn for each step, or each client makes one kind only, dealt by its number."""


class Mix(QueueSender):
    """Peeks, asks for queues, sends and removes, a quarter each by default (ASL15).

    In ASL15 every client makes one kind of request only: `each = "client"`.
    """

    Parameters = MixParameters

    def __init__(self, client: Client, client_context: ClientContext, parameters: Any) -> None:
        super().__init__(client, client_context, parameters)
        weights = parameters.shares.weights()
        requests: dict[str, Callable[[], Awaitable[object]]] = {
            "peek": self._peek,
            "query": self._query,
            "send": self.send_message,
            "delete": self._delete,
            "echo": self._echo,
        }
        self._requests = [requests[kind] for kind in weights]
        self._bounds = list(accumulate(weights.values()))
        if parameters.each == "client":
            kind = deal(tuple(weights.values()), client_context.groups[client_context.group])[client_context.number - 1]
            self._requests, self._bounds = [self._requests[kind]], [1.0]

    async def step(self) -> None:
        """Make one request."""
        [request] = self.rng.choices(self._requests, cum_weights=self._bounds)
        await request()

    async def _peek(self) -> None:
        await self.client.peek(self.any_queue())

    async def _query(self) -> None:
        await self.client.waiting_queues()

    async def _delete(self) -> None:
        await self.client.receive(self.any_queue())

    async def _echo(self) -> None:
        await self.client.echo(self.body())


@lru_cache(maxsize=8)
def deal(weights: tuple[float, ...], count: int) -> tuple[int, ...]:
    """The kind of each of `count` clients, such that the first clients of any number have kinds in proportion."""
    total = sum(weights)
    counts = [0] * len(weights)
    kinds = []
    for number in range(1, count + 1):
        deficits = [weight * number / total - dealt for weight, dealt in zip(weights, counts, strict=True)]
        kind = deficits.index(max(deficits))
        counts[kind] += 1
        kinds.append(kind)
    return tuple(kinds)
