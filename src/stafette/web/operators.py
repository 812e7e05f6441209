"""Operators of the console: a viewer may look, an admin may change things. Only hashes of their secrets are stored."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import deque
from secrets import token_urlsafe

from stafette.broker import secrets
from stafette.database.audit import Actor
from stafette.database.console import Console
from stafette.database.views import Role
from stafette.errors import NotAuthenticated, Overloaded

ROLES: tuple[Role, ...] = ("admin", "viewer")

COMMAND_LINE = Actor("command line", "-")
"""The audit names it as the creator of secrets."""

SESSION_SECONDS = 12 * 3600
SECRET_BYTES = 18
MAX_FAILURES = 10
"""After so many wrong secrets within a minute, an IP address must wait."""
MINUTE = 60.0


async def first_secret(console: Console) -> str | None:
    """A new administrator's secret, or None if there is one already. It cannot be shown again."""
    secret = token_urlsafe(SECRET_BYTES)
    return secret if await console.claim_operator(COMMAND_LINE, "admin", secrets.hash_secret(secret)) else None


async def new_secret(console: Console, role: Role) -> str:
    """A new secret for a role. The old one stops working; its sessions stay until they expire."""
    secret = token_urlsafe(SECRET_BYTES)
    await console.set_operator_secret(COMMAND_LINE, role, secrets.hash_secret(secret))
    return secret


class Operators:
    """Finds the role that belongs to a secret or to the token of a session."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._verified: dict[bytes, tuple[Role, str]] = {}
        """Role and hash by the digest of a secret that matched."""
        self._failures: dict[str, deque[float]] = {}
        self._comparing = asyncio.Lock()

    async def by_secret(self, secret: str, ip: str) -> Role:
        """The role that a secret gives. Comparing is slow on purpose, so matches are remembered."""
        digest = _digest(secret)
        hashes = {role: await self._console.operator_secret(role) for role in ROLES}
        if digest in self._verified:
            verified_role, verified_hash = self._verified[digest]
            if hashes[verified_role] == verified_hash:
                return verified_role
            del self._verified[digest]
        self._check_failures(ip)
        async with self._comparing:
            for role, stored_hash in hashes.items():
                if stored_hash is not None and await asyncio.to_thread(secrets.matches, secret, stored_hash):
                    self._verified[digest] = (role, stored_hash)
                    return role
        self._failures.setdefault(ip, deque(maxlen=MAX_FAILURES)).append(time.monotonic())
        raise NotAuthenticated("this is not an operator's secret; `stafette web secret` makes a new one")

    def _check_failures(self, ip: str) -> None:
        """Raise Overloaded if too many wrong secrets came from an IP address within the last minute."""
        now = time.monotonic()
        for failed_ip, times in list(self._failures.items()):
            if now - times[-1] > MINUTE:
                del self._failures[failed_ip]
        failures = self._failures.get(ip, deque())
        if len(failures) == MAX_FAILURES and now - failures[0] < MINUTE:
            raise Overloaded("too many wrong secrets from your IP address; wait a minute")

    async def open_session(self, actor: Actor) -> str:
        """Open a session; returns its token, for the browser's cookie."""
        token = token_urlsafe(32)
        await self._console.open_session(actor, _digest(token), seconds=SESSION_SECONDS)
        return token

    async def by_session(self, token: str) -> Role | None:
        """The role of a session, or None if it has ended."""
        return await self._console.session(_digest(token))

    async def close_session(self, token: str) -> None:
        """End a session."""
        await self._console.close_session(_digest(token))


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
