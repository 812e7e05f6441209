"""How both ends of a connection find out that the other machine has vanished without a word."""

from __future__ import annotations

import asyncio
import socket

KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}
"""Found within a minute and a half, even while nothing is asked."""


def keep_alive(transport: asyncio.BaseTransport) -> None:
    """Let the kernel ask now and then whether the peer is still there."""
    raw = transport.get_extra_info("socket")
    if raw is None:
        return
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        if hasattr(socket, name):
            raw.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
