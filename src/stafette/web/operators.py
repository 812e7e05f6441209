"""Operators: who may look (viewer) and who may change things (admin), each by a secret of which only a hash is kept."""

from __future__ import annotations

import asyncio
import hashlib
import secrets as chance
import time
from collections import deque

from stafette.broker import secrets
from stafette.database.audit import Actor
from stafette.database.console import Console
from stafette.database.views import Role
from stafette.errors import NotAuthenticated, Overloaded

ROLES: tuple[Role, ...] = ("admin", "viewer")

COMMAND_LINE = Actor("command line", "-")
"""Who makes secrets: whoever may run commands where the database's URL is known."""

SESSION_SECONDS = 12 * 3600
SECRET_BYTES = 18
TRIES = 10
"""Wrong secrets from one address within a minute, after which it must wait."""
MINUTE = 60.0


async def first_secret(console: Console) -> str | None:
    """The administrator's secret if there was none yet: this is the one time that it can be shown."""
    secret = chance.token_urlsafe(SECRET_BYTES)
    return secret if await console.claim_operator(COMMAND_LINE, "admin", secrets.hash_secret(secret)) else None


async def new_secret(console: Console, role: Role) -> str:
    """A new secret for a role; the old one is worth nothing any more, its sessions end in their time."""
    secret = chance.token_urlsafe(SECRET_BYTES)
    await console.set_operator_secret(COMMAND_LINE, role, secrets.hash_secret(secret))
    return secret


class Operators:
    """Tells who somebody is by a secret or by a session's token."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._known: dict[bytes, tuple[Role, str]] = {}
        self._failures: dict[str, deque[float]] = {}
        self._one_at_a_time = asyncio.Lock()

    async def by_secret(self, secret: str, address: str) -> Role:
        """The role that a secret gives; comparing is made to be slow, so what was right once is remembered."""
        mark = _mark(secret)
        stored = {role: await self._console.operator_secret(role) for role in ROLES}
        if mark in self._known:
            known, behind = self._known[mark]
            if stored[known] == behind:
                return known
            del self._known[mark]
        self._patience(address)
        async with self._one_at_a_time:
            for role, hashed in stored.items():
                if hashed is not None and await asyncio.to_thread(secrets.matches, secret, hashed):
                    self._known[mark] = (role, hashed)
                    return role
        self._failures.setdefault(address, deque(maxlen=TRIES)).append(time.monotonic())
        raise NotAuthenticated("this is not an operator's secret; `stafette web secret` makes a new one")

    def _patience(self, address: str) -> None:
        """Refuse whoever has guessed too often just now."""
        now = time.monotonic()
        for known, failures in list(self._failures.items()):
            if now - failures[-1] > MINUTE:
                del self._failures[known]
        failed = self._failures.get(address, deque())
        if len(failed) == TRIES and now - failed[0] < MINUTE:
            raise Overloaded("too many wrong secrets came from your address; wait a minute")

    async def open_session(self, actor: Actor) -> str:
        """Begin a session; returns the token that a browser shows from then on."""
        token = chance.token_urlsafe(32)
        await self._console.open_session(actor, _mark(token), seconds=SESSION_SECONDS)
        return token

    async def by_session(self, token: str) -> Role | None:
        """The role of a session that has not ended."""
        return await self._console.session(_mark(token))

    async def close_session(self, token: str) -> None:
        """End a session."""
        await self._console.close_session(_mark(token))


def _mark(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
