"""URLs that name several servers: the one that will do is found, whatever the others do."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from stafette.database.connect import connect_any
from stafette.database.embedded import EmbeddedPostgres


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str | None]:
    """A server with TCP."""
    found = EmbeddedPostgres(tmp_path_factory.mktemp("tcp"), tcp=True)
    try:
        found.start()
        yield found.tcp_url
    finally:
        found.stop()


async def first(*servers: str, of: str, options: str = "") -> bool:
    """Whether it is the server that lets us in."""
    login, _, rest = of.partition("@")
    address, _, name = rest.partition("/")
    listed = ",".join(address if server == "the server" else server for server in servers)
    connection = await connect_any(f"{login}@{listed}/{name}{options}", timeout=5.0)
    try:
        return f"127.0.0.1:{await connection.fetchval('SHOW port')}" == address
    finally:
        await connection.close()


async def test_a_server_that_is_mute_leaves_time_for_the_next(server: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        there = f"127.0.0.1:{mute.getsockname()[1]}"
        assert await first(there, "the server", of=server)


async def test_a_server_that_is_gone_is_passed_over(server: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as short_lived:
        there = f"127.0.0.1:{short_lived.getsockname()[1]}"
    assert await first(there, "the server", of=server, options="?target_session_attrs=read-write")


async def test_when_no_server_will_do_it_says_so(server: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        there = f"127.0.0.1:{mute.getsockname()[1]}"
        with pytest.raises(TimeoutError):
            await first("the server", there, of=server, options="?target_session_attrs=standby")
