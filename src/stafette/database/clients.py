"""Clients and their sessions."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import msgspec

from stafette.database.pool import Pool
from stafette.errors import ClientNotFound
from stafette.model import Client


class Identity(msgspec.Struct, frozen=True):
    """What a broker needs to know of a client that says hello."""

    id: int
    name: str
    mode: str
    secret: str | None


class Clients:
    """The registered clients of one database, and who is online."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def register(self, name: str, *, mode: str = "full", secret: str | None = None) -> Identity:
        """Register a client, or identify a registered one: then mode and secret are those of the first time."""
        rows = await self._pool.fetch("SELECT * FROM stafette.register($1, $2, $3)", name, mode, secret)
        return Identity(*rows[0])

    async def get(self, name: str) -> Client:
        """One registered client."""
        rows = await self._pool.fetch("SELECT * FROM stafette.find_client($1)", name)
        if not rows:
            raise ClientNotFound(f"there is no client {name}")
        return Client(*rows[0])

    async def all(self, *, after: str = "", limit: int | None = None) -> list[Client]:
        """Registered clients by name."""
        rows = await self._pool.fetch("SELECT * FROM stafette.list_clients($1, $2)", after, limit)
        return [Client(*row) for row in rows]

    async def delete(self, name: str, *, by: int) -> None:
        """Delete a client that is offline, with its personal queue and all messages addressed to it."""
        await self._pool.value_alone("SELECT stafette.delete_client($1, $2)", by, name)

    async def take_sessions(
        self, clients: Sequence[int], broker: int, *, sessions: Sequence[int | None] = ()
    ) -> list[int | None]:
        """Put clients online; each answer is the session's token, or None: the name has a live session, or is gone.

        `sessions` are the numbers that the clients show: with that of its live session a client continues it.
        """
        tokens = [secrets.randbits(63) for _ in clients]
        rows = await self._pool.fetch(
            "SELECT * FROM stafette.take_sessions($1, $2, $3, $4)",
            clients,
            tokens,
            broker,
            sessions or [None] * len(clients),
        )
        return [token for _, token in rows]

    async def release_sessions(self, sessions: Sequence[tuple[int, int]]) -> None:
        """Take clients offline: pairs of client and token."""
        await self._pool.fetch(
            "SELECT stafette.release_sessions($1, $2)",
            [client for client, _ in sessions],
            [token for _, token in sessions],
        )
