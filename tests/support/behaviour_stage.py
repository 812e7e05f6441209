"""One broker, its queues, and clients that behave as an experiment says."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import AsyncExitStack
from typing import Any

import stafette.aio
from stafette.broker.runtime import Runtime
from stafette.client.aio import Client
from stafette.lab.behaviours import BUILT_IN, Behaviour, check
from stafette.lab.behaviours.behaviour import ClientContext

QUEUES = ("q-1", "q-2", "q-3", "q-4")


class Stage:
    """One broker, its queues, and the clients of an experiment."""

    def __init__(self, runtime: Runtime, url: str, stack: AsyncExitStack) -> None:
        self.runtime = runtime
        self._url = url
        self._stack = stack

    async def connect(self, name: str) -> Client:
        return await self._stack.enter_async_context(await stafette.aio.connect(self._url, name=name))

    async def enter(
        self, behaviour: str | type[Behaviour], number: int = 1, *, of: int = 1, group: str | None = None,
        others: dict[str, int] | None = None, made: tuple[str, ...] = QUEUES, **parameters: Any,
    ) -> Any:  # fmt: skip
        """Connect a client and let it begin; `of` is how many its group has, `made` the queues made for the run."""
        kind = BUILT_IN[behaviour] if isinstance(behaviour, str) else behaviour
        group = group or kind.__name__.lower()
        client_context = ClientContext(
            group, number, {group: of, **(others or {})}, made, random.Random(f"7:{group}-{number}")
        )
        client = kind(await self.connect(client_context.name), client_context, check(kind, parameters))
        await client.begin()
        return client

    async def stored(self, *queues: str) -> int:
        return sum([(await self.director.queue(queue)).messages for queue in queues or QUEUES])

    def requests(self) -> Counter[str]:
        """What the broker has answered so far, without complaint."""
        return Counter(
            {kind: count for (kind, outcome), count in self.runtime.core.metrics.requests().items() if outcome == "ok"}
        )

    async def open(self) -> None:
        self.director = await self.connect("director")
        for queue in QUEUES:
            await self.director.create_queue(queue)


async def steps(client: Behaviour, count: int) -> None:
    for _ in range(count):
        await client.step()


async def at_once(client: Behaviour, count: int) -> None:
    """As in the open loop."""
    await asyncio.gather(*(client.step() for _ in range(count)))
