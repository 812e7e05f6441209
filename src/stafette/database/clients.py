"""Clients and their sessions."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import msgspec

from stafette.database.pool import Pool
from stafette.errors import ClientNotFound, StafetteError, Unavailable, from_code
from stafette.model import Client

RACES = 3
"""How often to try when another broker is faster. It then has the session, and the next attempt sees that."""

RESERVED_NAMES = frozenset({"console"})
"""Names that nobody can register by saying hello (functions/clients/is_reserved.sql)."""

_RACES = "other brokers change this session all the time; try again"


class Identity(msgspec.Struct, frozen=True):
    """What a broker needs to know of a client that says hello."""

    id: int
    name: str
    mode: str
    secret: str | None
    """The hash of its secret, if it has one."""
    proved: bool = False
    """Whether the number that it showed stands for its secret: it is that of its session."""


class Registration(msgspec.Struct, frozen=True):
    """A client to find, or to register if it is new."""

    name: str
    mode: str = "full"
    secret: str | None = None
    """The hash of the secret of a new client."""
    registers: bool = True
    """Whether to register a new name; otherwise it is only looked for."""
    session: int | None = None
    """The number that the client shows."""


class Claim(msgspec.Struct, frozen=True):
    """A client that may have a session."""

    client: int
    secret: str | None = None
    """The hash with which its secret was compared."""
    session: int | None = None
    """The number that it shows: that of its session, if it has one."""


class Taken(msgspec.Struct, frozen=True):
    """A session that was opened or continued, under this token."""

    token: int
    left_broker: int | None = None
    """The live broker at which it was until now, under another token."""
    left_token: int | None = None


class Clients:
    """The registered clients of one database, and who is online."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def register(self, name: str, *, mode: str = "full", secret: str | None = None) -> Identity:
        """Register a client, or identify a registered one: then mode and secret are those of the first time."""
        rows = await self._pool.fetch("SELECT * FROM stafette.register($1, $2, $3)", name, mode, secret)
        return Identity(*rows[0])

    async def register_batch(self, registrations: Sequence[Registration]) -> list[Identity | StafetteError | None]:
        """The same for many clients at once; None is a new name that was not to be registered."""
        rows = await self._pool.fetch(
            "SELECT * FROM stafette.register_batch($1, $2, $3, $4, $5)",
            [registration.name for registration in registrations],
            [registration.mode for registration in registrations],
            [registration.secret for registration in registrations],
            [registration.registers for registration in registrations],
            [registration.session for registration in registrations],
        )
        return [
            from_code(fault, detail) if fault else None if identity[0] is None else Identity(*identity)
            for _, fault, detail, *identity in rows
        ]

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

    async def take_sessions(self, claims: Sequence[Claim], broker: int) -> list[Taken | StafetteError]:
        """Put clients online at a broker, each under a new token."""
        numbers: Sequence[int] = range(len(claims))
        answers: list[Taken | StafetteError] = [Unavailable(_RACES, outcome="not done") for _ in claims]
        for _ in range(RACES):
            rows = await self._pool.fetch(
                "SELECT * FROM stafette.take_sessions($1, $2, $3, $4, $5)",
                [claims[number].client for number in numbers],
                [claims[number].secret for number in numbers],
                [claims[number].session for number in numbers],
                [secrets.randbits(63) for _ in numbers],
                broker,
            )
            lost_races = []
            for number, (_, token, fault, detail, left_broker, left_token) in zip(numbers, rows, strict=True):
                if fault is not None:
                    answers[number] = from_code(fault, detail)
                elif token is not None:
                    answers[number] = Taken(token, left_broker, left_token)
                else:
                    lost_races.append(number)
            numbers = lost_races
            if not numbers:
                break
        return answers

    async def release_sessions(self, sessions: Sequence[tuple[int, int]], *, for_good: bool = False) -> None:
        """Take clients offline: pairs of client and token. Unless it is for good, they can continue their sessions."""
        await self._pool.fetch(
            "SELECT stafette.release_sessions($1, $2, $3)",
            [client for client, _ in sessions],
            [token for _, token in sessions],
            for_good,
        )
