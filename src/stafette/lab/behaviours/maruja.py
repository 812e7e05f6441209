"""Maruja, the server in FTaB's pairs."""

from __future__ import annotations

from stafette.lab.behaviours.parts import OneQueue, OnOneQueue, Reader, Sender, Sending
from stafette.model import Message


class MarujaParameters(OneQueue, Sending):
    """One queue, what is sent to it, and to whom."""

    partner: str | None = None
    """The group whose requests she answers; by default any request that is addressed to her."""


class Maruja(OnOneQueue, Sender, Reader):
    """Takes requests addressed to her from one queue and puts a response to each back into it (FTaB).

    Give the pairs a queue of their own: what is for anyone she takes too, and does not answer.
    """

    Parameters = MarujaParameters

    async def step(self) -> None:
        """Answer the next request, if one came in time."""
        request = await self.read(self.queue)
        if request is None or not self._is_for_me(request):
            return
        await self.me.send(
            self.queue, self.body(), receiver=request.sender, context=request.context, priority=self.priority()
        )

    def _is_for_me(self, request: Message) -> bool:
        partner = self.parameters.partner
        return request.receiver == self.scene.name and partner in (None, request.sender.rpartition("-")[0])
