"""A lease in the hands of a client."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import TYPE_CHECKING

from stafette.errors import StafetteError
from stafette.model import Message
from stafette.protocol import messages as wire

if TYPE_CHECKING:
    from stafette.client.aio import Client


class Lease:
    """A leased message. Acknowledge it when the work is done, or give it back."""

    def __init__(self, client: Client, message: Message, token: int, held_until: float) -> None:
        self._client = client
        self._token = token
        self._held_until = held_until
        """Before this, by the clock of the event loop, the lease cannot have run out."""
        self._settlements = 0
        """How often it was to be ended: after the first time, LeaseLost may be about an earlier one."""
        self._ended = False
        self.message = message

    async def ack(self) -> None:
        """Acknowledge the message, which deletes it."""
        await self._settle(wire.Ack(0, self.message.id, self._token))

    async def nack(self, delay: float | None = None) -> None:
        """Give the message back; it is ready at once, or after `delay` seconds."""
        await self._settle(wire.Nack(0, self.message.id, self._token, delay))

    async def _settle(self, request: wire.Ack | wire.Nack) -> None:
        self._settlements += 1
        await self._client._settle(request, self._can_end_only_now)
        self._ended = True

    def _can_end_only_now(self) -> bool:
        """Whether only the request that is under way can have ended the lease."""
        return self._settlements == 1 and asyncio.get_running_loop().time() < self._held_until

    async def extend(self, seconds: float) -> None:
        """Let the lease end `seconds` from now."""
        now = asyncio.get_running_loop().time()
        await self._client.extend(self.message.id, self._token, seconds)
        self._held_until = now + seconds

    async def end(self, *, success: bool) -> None:
        """Acknowledge or give back, unless that has been done.

        An error while giving back is ignored, as the caller already handles one: the lease then runs out by itself.
        """
        if self._ended:
            return
        if success:
            await self.ack()
        else:
            with contextlib.suppress(StafetteError):
                await self.nack()


class Leasing:
    """What `lease()` returns: await it, or enter it. Either way it gives a Lease, or None if no message came."""

    def __init__(self, take: Callable[[], Awaitable[Lease | None]]) -> None:
        self._take = take
        self._lease: Lease | None = None

    def __await__(self) -> Generator[object, None, Lease | None]:
        return self._take().__await__()

    async def __aenter__(self) -> Lease | None:
        self._lease = await self._take()
        return self._lease

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lease is not None:
            await self._lease.end(success=kind is None)
