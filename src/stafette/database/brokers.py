"""Brokers: their leases, which sessions they hold, and how they notify each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from stafette.database.pool import Pool


class Drain(msgspec.Struct, frozen=True):
    """An operator's command to drain and end."""


class Disconnect(msgspec.Struct, frozen=True):
    """An operator's command to end a session: the client's, if it still has this token."""

    client: int
    token: int


Command = Drain | Disconnect


class Brokers:
    """The brokers of one database."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def join(self, name: str, *, seconds: float) -> int:
        """Register a broker, with a lease of so many seconds; returns its id."""
        return int(await self._pool.value("SELECT stafette.join_broker($1, $2)", name, seconds))

    async def renew(self, broker: int, *, seconds: float) -> bool | None:
        """Renew its lease: True when without a gap, False when it had run out, None when the broker is deleted.

        A server that is silent for half of the lease may be frozen or gone: another connection is tried.
        """
        rows = await self._pool.fetch("SELECT stafette.renew_broker($1, $2)", broker, seconds, seconds=seconds / 2)
        is_held: bool | None = rows[0][0]
        return is_held

    async def leave(self, broker: int) -> None:
        """Delete a broker; its clients are offline."""
        await self._pool.fetch("SELECT stafette.leave_broker($1)", broker)

    async def sessions(self, broker: int) -> dict[int, int]:
        """The sessions a broker holds: token by client."""
        return dict(await self._pool.fetch("SELECT * FROM stafette.broker_sessions($1)", broker))  # type: ignore[arg-type]

    async def publish_metrics(self, broker: int, metrics: dict[str, Any], *, seconds: float | None = None) -> None:
        """Show operators how a broker is; the call may take so many seconds."""
        await self._pool.fetch("SELECT stafette.publish_metrics($1, $2)", broker, metrics, seconds=seconds)

    async def take_commands(self, broker: int) -> list[Command]:
        """Remove and return what operators have told a broker to do, in their order."""
        rows = await self._pool.fetch("SELECT * FROM stafette.take_commands($1)", broker)
        return [Drain() if command == "drain" else Disconnect(client, token) for command, client, token in rows]

    async def announce_interests(self, broker: int, queues: Sequence[str]) -> None:
        """Say for which queues, and no others, a broker has reads parked; '' stands for any queue."""
        await self._pool.fetch("SELECT stafette.announce_interests($1, $2)", broker, queues)

    async def interests_elsewhere(self, broker: int) -> dict[str, set[int]]:
        """Which other brokers have reads parked, by queue."""
        interests: dict[str, set[int]] = {}
        for queue, other in await self._pool.fetch("SELECT * FROM stafette.interests_elsewhere($1)", broker):
            interests.setdefault(queue, set()).add(other)
        return interests

    async def notify(self, notifications: Sequence[tuple[int, str]]) -> None:
        """Notify brokers of something new in a queue: pairs of broker and queue."""
        await self._pool.fetch(
            "SELECT stafette.notify_brokers($1, $2)",
            [broker for broker, _ in notifications],
            [queue for _, queue in notifications],
        )

    async def notify_moved_sessions(self, moved: Sequence[tuple[int, int, int]]) -> None:
        """Tell brokers which sessions of theirs go on elsewhere: broker, client and the token there."""
        await self._pool.fetch(
            "SELECT stafette.notify_moved_sessions($1, $2, $3)",
            [broker for broker, _, _ in moved],
            [client for _, client, _ in moved],
            [token for _, _, token in moved],
        )
