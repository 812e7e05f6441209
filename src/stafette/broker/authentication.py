"""Authentication: who says hello, and whether they are who they say. The core decides whether there is room."""

from __future__ import annotations

import asyncio

from stafette.broker import secrets
from stafette.database.clients import Identity
from stafette.database.store import Store
from stafette.errors import NotAuthenticated
from stafette.protocol import messages as wire


async def identify(hello: wire.Hello, store: Store, *, require_secrets: bool) -> Identity:
    """Register who says hello, or recognise it by its secret."""
    if require_secrets and not hello.secret:
        raise NotAuthenticated("this broker wants a secret; connect with one")
    # Hashing takes its time by design, so it does that beside the event loop.
    loop = asyncio.get_running_loop()
    secret = await loop.run_in_executor(None, secrets.hashed, hello.secret) if hello.secret else None
    identity = await store.clients.register(hello.name, mode=hello.mode, secret=secret)
    if identity.secret == secret:  # it has just been registered, or never had one
        return identity
    if identity.secret is None:
        raise NotAuthenticated(f"client {hello.name} has no secret; connect without one")
    if hello.secret is None or not await loop.run_in_executor(None, secrets.matches, hello.secret, identity.secret):
        raise NotAuthenticated(f"client {hello.name} has another secret; connect with that")
    return identity
