"""Secrets of clients: kept as salted scrypt hashes, compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
import os

# 16 MiB and some 40 ms for each guess; only hellos of names with a secret pay it.
COST, BLOCK, LANES = 2**14, 8, 1
SALT_BYTES = 16


def hashed(secret: str) -> str:
    """The form in which a secret is stored."""
    salt = os.urandom(SALT_BYTES)
    return f"scrypt${salt.hex()}${_digest(secret, salt).hex()}"


def matches(secret: str, stored: str) -> bool:
    """Whether a secret is the one that was stored."""
    _, salt, digest = stored.split("$")
    return hmac.compare_digest(_digest(secret, bytes.fromhex(salt)), bytes.fromhex(digest))


def _digest(secret: str, salt: bytes) -> bytes:
    return hashlib.scrypt(secret.encode(), salt=salt, n=COST, r=BLOCK, p=LANES)
