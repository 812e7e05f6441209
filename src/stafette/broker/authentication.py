"""Authentication: which client says hello, and whether its secret is right. The core decides whether there is room."""

from __future__ import annotations

import asyncio

from stafette.broker import secrets
from stafette.database.clients import Identity
from stafette.database.store import Store
from stafette.errors import NotAuthenticated
from stafette.protocol import messages as wire


async def identify(hello: wire.Hello, store: Store, *, require_secrets: bool) -> Identity:
    """Register a new client, or check the secret of a known one."""
    if require_secrets and not hello.secret:
        raise NotAuthenticated("this broker requires a secret; connect with one")
    # Hashing is slow by design, so it runs in a thread.
    loop = asyncio.get_running_loop()
    secret = await loop.run_in_executor(None, secrets.hash_secret, hello.secret) if hello.secret else None
    identity = await store.clients.register(hello.name, mode=hello.mode, secret=secret)
    if identity.secret == secret:  # it has just been registered, or never had one
        return identity
    if identity.secret is None:
        raise NotAuthenticated(f"client {hello.name} has no secret; connect without one")
    if hello.secret is None or not await loop.run_in_executor(None, secrets.matches, hello.secret, identity.secret):
        raise NotAuthenticated(f"client {hello.name} has another secret; connect with that")
    return identity
