"""mlmq's PairedClient."""

from __future__ import annotations

from typing import Any

from stafette.client.aio import Client
from stafette.errors import InvalidRequest
from stafette.lab.behaviours.base import Scene
from stafette.lab.behaviours.parts import Asker, Asking


class Paired(Asker):
    """One of two that keep sending requests and responses to each other's personal queues (mlmq).

    Clients 1 and 2 are a pair, 3 and 4, and so on; the odd number asks and the even one answers.
    """

    Parameters = Asking

    def __init__(self, me: Client, scene: Scene, parameters: Any) -> None:
        super().__init__(me, scene, parameters)
        if scene.groups[scene.group] % 2:
            raise InvalidRequest(
                f"the clients {scene.group} come in pairs, but there are {scene.groups[scene.group]}; "
                "make their count even"
            )
        self.asks = scene.number % 2 == 1
        self._mine = f"@{scene.name}"
        self._partners = f"@{scene.group}-{scene.number + 1 if self.asks else scene.number - 1}"

    async def step(self) -> None:
        """Send one request and wait for its response; or answer the next request, if one came in time."""
        if self.asks:
            context = self.new_context()
            await self.me.send(self._partners, self.body(), context=context, priority=self.priority())
            await self.response(self._mine, context)
        elif (request := await self.read(self._mine)) is not None:
            await self.me.reply(request, self.body())
