"""Maruja, the server in FTaB's pairs."""

from __future__ import annotations

from stafette.lab.behaviours.parts import OneQueueParameters, OneQueueUser, Reader, Sender, SendParameters
from stafette.model import Message


class MarujaParameters(OneQueueParameters, SendParameters):
    """One queue, what is sent to it, and to whom."""

    partner: str | None = None
    """The group whose requests she responds to; by default all requests addressed to her."""


class Maruja(OneQueueUser, Sender, Reader):
    """Receives requests addressed to her from one queue and sends a response to each to the same queue (FTaB).

    Give the pairs a queue of their own: she also takes messages for anyone, and does not respond to them.
    """

    Parameters = MarujaParameters

    async def step(self) -> None:
        """Respond to the next request, if there is one."""
        request = await self.read(self.queue)
        if request is None or not self._is_answerable(request):
            return
        await self.client.send(
            self.queue, self.body(), receiver=request.sender, context=request.context, priority=self.priority()
        )

    def _is_answerable(self, request: Message) -> bool:
        partner = self.parameters.partner
        return request.receiver == self.client_context.name and partner in (None, request.sender.rpartition("-")[0])
