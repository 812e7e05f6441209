"""mlmq's PairedClient."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stafette.client.aio import Client
from stafette.lab.behaviours.base import Contradictions, Scene
from stafette.lab.behaviours.parts import Asker, Asking


class Paired(Asker):
    """One of two that keep sending requests and responses to each other's personal queues (mlmq).

    Clients 1 and 2 are a pair, 3 and 4, and so on; the odd number asks and the even one answers.
    """

    Parameters = Asking

    def __init__(self, me: Client, scene: Scene, parameters: Any) -> None:
        super().__init__(me, scene, parameters)
        self.asks = scene.number % 2 == 1
        self._mine = f"@{scene.name}"
        self._partners = f"@{scene.group}-{scene.number + 1 if self.asks else scene.number - 1}"

    @classmethod
    def contradictions(
        cls, parameters: Any, group: str, groups: Mapping[str, int], queues: Sequence[str]
    ) -> Contradictions:
        """Nobody may be left without the other half."""
        yield from super().contradictions(parameters, group, groups, queues)
        if groups[group] % 2:
            yield "count", "these clients come in pairs; make it even"

    async def step(self) -> None:
        """Send one request and wait for its response; or answer the next request, if one came in time."""
        if self.asks:
            context = self.new_context()
            await self.me.send(self._partners, self.body(), context=context, priority=self.priority())
            await self.response(self._mine, context)
        elif (request := await self.read(self._mine)) is not None:
            await self.me.reply(request, self.body())
