"""TCP keepalive, by which both ends of a connection notice that the other machine has vanished."""

from __future__ import annotations

import asyncio
import socket

KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}
"""A lost peer is noticed within a minute and a half, even while the connection is idle."""


def keep_alive(transport: asyncio.BaseTransport) -> None:
    """Let the kernel probe an idle connection."""
    connection = transport.get_extra_info("socket")
    if connection is None:
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
