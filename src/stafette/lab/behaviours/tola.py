"""Tola, the client in FTaB's pairs."""

from __future__ import annotations

from typing import Any

from stafette.client.aio import Client
from stafette.lab.behaviours.base import Scene
from stafette.lab.behaviours.parts import Asker, Asking, OneQueue, OnOneQueue


class TolaParameters(OneQueue, Asking):
    """One queue, what is sent to it, and to whom."""

    partner: str = "maruja"
    """The group that answers; the client's number there is its own, or, if there are fewer, they are dealt in turn."""


class Tola(OnOneQueue, Asker):
    """Sends a request to her own Maruja and, before she sends another, finds the response in the same queue (FTaB)."""

    Parameters = TolaParameters

    def __init__(self, me: Client, scene: Scene, parameters: Any) -> None:
        super().__init__(me, scene, parameters)
        number = (scene.number - 1) % scene.groups[parameters.partner] + 1
        self.maruja = f"{parameters.partner}-{number}"

    async def step(self) -> None:
        """Send one request and wait for its response."""
        context = self.new_context()
        await self.me.send(self.queue, self.body(), receiver=self.maruja, context=context, priority=self.priority())
        await self.response(self.queue, context)
