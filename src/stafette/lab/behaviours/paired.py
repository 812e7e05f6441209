"""mlmq's PairedClient."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stafette.client.aio import Client
from stafette.lab.behaviours.behaviour import ClientContext, Contradictions
from stafette.lab.behaviours.parts import Requester, RequestParameters


class Paired(Requester):
    """One of two clients that send requests and responses to each other's personal queues (mlmq).

    Clients 1 and 2 are a pair, 3 and 4, and so on; odd numbers send requests and even ones respond.
    """

    Parameters = RequestParameters

    def __init__(self, client: Client, client_context: ClientContext, parameters: Any) -> None:
        super().__init__(client, client_context, parameters)
        self.is_requester = client_context.number % 2 == 1
        self._own_queue = f"@{client_context.name}"
        self._partner_queue = (
            f"@{client_context.group}-{client_context.number + 1 if self.is_requester else client_context.number - 1}"
        )

    @classmethod
    def contradictions(
        cls, parameters: Any, group: str, groups: Mapping[str, int], queues: Sequence[str]
    ) -> Contradictions:
        """Require an even number of clients."""
        yield from super().contradictions(parameters, group, groups, queues)
        if groups[group] % 2:
            yield "count", "these clients come in pairs; make it even"

    async def step(self) -> None:
        """Send one request and wait for its response; or respond to the next request, if there is one."""
        if self.is_requester:
            context = self.new_context()
            await self.client.send(self._partner_queue, self.body(), context=context, priority=self.priority())
            await self.response(self._own_queue, context)
        elif (request := await self.read(self._own_queue)) is not None:
            await self.client.reply(request, self.body())
