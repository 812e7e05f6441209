"""Secrets of clients: stored as salted scrypt hashes, compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
import os
import warnings

# 16 MiB and some 40 ms per guess; only hellos of clients with a secret pay it.
COST, BLOCK, LANES = 2**14, 8, 1
SALT_BYTES = 16


def hash_secret(secret: str) -> str:
    """The form in which a secret is stored."""
    salt = os.urandom(SALT_BYTES)
    return f"scrypt${salt.hex()}${_digest(secret, salt).hex()}"


def hashed(secret: str) -> str:
    """The former name of `hash_secret`; it works for one more version."""
    warnings.warn("stafette.broker.secrets.hashed is now hash_secret", DeprecationWarning, stacklevel=2)
    return hash_secret(secret)


def matches(secret: str, stored: str) -> bool:
    """Whether a secret matches a stored hash."""
    _, salt, digest = stored.split("$")
    return hmac.compare_digest(_digest(secret, bytes.fromhex(salt)), bytes.fromhex(digest))


def _digest(secret: str, salt: bytes) -> bytes:
    return hashlib.scrypt(secret.encode(), salt=salt, n=COST, r=BLOCK, p=LANES)
