"""Tola, the client in FTaB's pairs."""

from __future__ import annotations

from typing import Any

from stafette.client.aio import Client
from stafette.lab.behaviours.behaviour import ClientContext
from stafette.lab.behaviours.parts import OneQueueParameters, OneQueueUser, Requester, RequestParameters


class TolaParameters(OneQueueParameters, RequestParameters):
    """One queue, what is sent to it, and to whom."""

    partner: str = "maruja"
    """The group that responds. A client's partner has the same number; if there are fewer, they are dealt in turn."""


class Tola(OneQueueUser, Requester):
    """Sends a request to her Maruja, and waits for the response in the same queue before the next one (FTaB)."""

    Parameters = TolaParameters

    def __init__(self, client: Client, client_context: ClientContext, parameters: Any) -> None:
        super().__init__(client, client_context, parameters)
        number = (client_context.number - 1) % client_context.groups[parameters.partner] + 1
        self.maruja = f"{parameters.partner}-{number}"

    async def step(self) -> None:
        """Send one request and wait for its response."""
        context = self.new_context()
        await self.client.send(self.queue, self.body(), receiver=self.maruja, context=context, priority=self.priority())
        await self.response(self.queue, context)
