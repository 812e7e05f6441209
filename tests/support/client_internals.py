"""What tests see of clients and of reads from the inside."""

from __future__ import annotations

from typing import Any

from stafette.broker.runtime import Runtime
from stafette.client.aio import Client
from stafette.client.transport import Transport
from stafette.protocol.client import State
from tests.support.waiting import until


def transport_of(client: Client) -> Transport:
    transport = client._failover._transport
    assert transport is not None
    return transport


async def connection_ended(client: Client) -> None:
    """Wait until the client has noticed that its connection is gone."""
    transport = transport_of(client)
    await until(lambda: transport.connection.state is State.CLOSED)


def names_online(runtime: Runtime) -> set[str]:
    """Who is online through a broker."""
    return {session.name for session in runtime.core.sessions.values()}


def parked_seconds(runtime: Runtime) -> list[float]:
    """For each read that is parked in a broker, the seconds that it asked for."""
    reads: Any = [ticket.request for tickets in runtime.core.waiting._parked.values() for ticket in tickets]
    return [read.wait for read in reads]


async def taken_lease(client: Client, queue: str) -> Any:
    return await client.lease(queue, wait=60)
