"""Operators of the console: a viewer may look, an admin may change things. Only hashes of their secrets are stored.

Secrets are made here, of 144 random bits, so nobody guesses one, however fast. What is left to prevent is that wrong
ones cost anything, or keep the right one out: one pass of SHA-256 tells them apart, and the wrong are counted (ADR 21).
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import os
import time
from secrets import token_urlsafe

from stafette.broker import secrets
from stafette.database.audit import Actor
from stafette.database.console import Console
from stafette.database.views import Role
from stafette.errors import NotAuthenticated, Overloaded
from stafette.web.attempts import Attempts

log = logging.getLogger(__name__)

ROLES: tuple[Role, ...] = ("admin", "viewer")
Hashes = dict[Role, str | None]

COMMAND_LINE = Actor("command line", "-")
"""The audit names it as the creator of secrets."""
STRANGER = "stranger"
"""The audit names whoever gave a wrong secret so."""

SESSION_SECONDS = 12 * 3600
SECRET_BYTES = 18
SECRET_CHARACTERS = len(token_urlsafe(SECRET_BYTES))
SALT_BYTES = 16
HASH = "sha256"
MAX_FAILURES = 10
"""After so many wrong secrets within a minute, those of an IP address are not looked at any more."""
AUDITED_FAILURES = 20
"""Lines about wrong secrets that the audit gets within a minute, from all addresses: it keeps 100,000 lines in all."""
SLOW_COMPARISONS = 20
"""Secrets that wait to be compared with a hash of an earlier version, which takes 40 ms each, one after the other."""


async def first_secret(console: Console) -> str | None:
    """A new administrator's secret, or None if there is one already. It cannot be shown again."""
    secret = token_urlsafe(SECRET_BYTES)
    return secret if await console.claim_operator(COMMAND_LINE, "admin", hash_secret(secret)) else None


async def new_secret(console: Console, role: Role) -> str:
    """A new secret for a role. The old one stops working, and its sessions end."""
    secret = token_urlsafe(SECRET_BYTES)
    await console.set_operator_secret(COMMAND_LINE, role, hash_secret(secret))
    return secret


def hash_secret(secret: str) -> str:
    """The form in which a secret of ours is stored. It need not be slow: the secret is random."""
    salt = os.urandom(SALT_BYTES)
    return f"{HASH}${salt.hex()}${_digest(secret, salt).hex()}"


def matches(secret: str, stored: str) -> bool:
    """Whether a secret matches a hash of this version."""
    kind, salt, digest = stored.split("$")
    return kind == HASH and hmac.compare_digest(_digest(secret, bytes.fromhex(salt)), bytes.fromhex(digest))


class Operators:
    """Finds the role that belongs to a secret or to the token of a session."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next_read: asyncio.Task[Hashes] | None = None
        self._reading, self._comparing = asyncio.Lock(), asyncio.Lock()
        self._waiting_to_compare = 0
        self._failures = Attempts(MAX_FAILURES)
        self._audited = Attempts(AUDITED_FAILURES)

    async def by_secret(self, secret: str, ip: str) -> Role:
        """The role that a secret gives. The right one does, however many wrong ones there were."""
        hashes = await self._hashes()
        for role, stored in hashes.items():
            if stored is not None and matches(secret, stored):
                return role
        number = self._failures.count(ip, time.monotonic())
        if number <= MAX_FAILURES:
            former_role = await self._by_slow_hash(secret, hashes)
            if former_role is not None:
                self._failures.forgive(ip)
                return former_role
        await self._record_failure(ip, number)
        if number > MAX_FAILURES:
            raise Overloaded("too many wrong secrets from your IP address; wait a minute, or give the right one")
        raise NotAuthenticated("this is not an operator's secret; `stafette web secret` makes a new one")

    async def _hashes(self) -> Hashes:
        """The stored hashes as they are now. Who asks while they are read shares the next read with all others."""
        if self._next_read is None:
            self._next_read = asyncio.create_task(self._read_hashes())
        return await asyncio.shield(self._next_read)

    async def _read_hashes(self) -> Hashes:
        async with self._reading:
            self._next_read = None
            return {role: await self._console.operator_secret(role) for role in ROLES}

    async def _by_slow_hash(self, secret: str, hashes: Hashes) -> Role | None:
        """The same with hashes of an earlier version, one at a time; a match is stored in the form of this one."""
        for role, stored in hashes.items():
            if stored is None or stored.startswith(HASH):
                continue
            if self._waiting_to_compare == SLOW_COMPARISONS:
                raise Overloaded("too many secrets are being checked; try again in a moment")
            self._waiting_to_compare += 1
            try:
                async with self._comparing:
                    is_right = await asyncio.to_thread(secrets.matches, secret, stored)
            finally:
                self._waiting_to_compare -= 1
            if is_right:
                if len(secret) == SECRET_CHARACTERS:  # one of ours, not one that somebody thought of
                    await self._console.renew_operator_secret(role, stored, hash_secret(secret))
                return role
        return None

    async def _record_failure(self, ip: str, number: int) -> None:
        """Log a wrong secret; the audit gets the first within a minute, and that there were too many."""
        log.warning("a wrong secret from %s", ip)
        if number in (1, MAX_FAILURES) and self._audited.count("all", time.monotonic()) <= AUDITED_FAILURES:
            detail = "" if number == 1 else f"{number} within a minute; the next are not recorded"
            await self._console.audit.record(Actor(STRANGER, ip), "wrong secret", "console", detail)

    async def open_session(self, actor: Actor) -> str:
        """Open a session; returns its token, for the browser's cookie."""
        token = token_urlsafe(32)
        await self._console.open_session(actor, _token_hash(token), seconds=SESSION_SECONDS)
        return token

    async def by_session(self, token: str) -> Role | None:
        """The role of a session, or None if it has ended."""
        return await self._console.session(_token_hash(token))

    async def close_session(self, token: str) -> None:
        """End a session."""
        await self._console.close_session(_token_hash(token))


def _digest(secret: str, salt: bytes) -> bytes:
    return hashlib.sha256(salt + secret.encode()).digest()


def _token_hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
