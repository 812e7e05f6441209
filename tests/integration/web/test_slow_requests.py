"""Connections that take their time, on a listener in this process whose limits are short."""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import uvicorn
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from stafette.broker.listening import bind, port_of
from stafette.web import connections
from stafette.web.connections import HttpConnection, Listener
from tests.support.certificates import make_certificate
from tests.support.raw_http import Connect
from tests.support.waiting import until

SHORT = 0.05
BODY = {"Content-Length": "1000000"}


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Refuses what comes to /refused; else reads the body. Whoever comes to /operator is an operator."""
    request = Request(scope, receive)
    if scope["path"] == "/operator":
        request.state.operator = "admin"
    status = 401 if scope["path"] == "/refused" else 200
    size = 0 if status == 401 else len(await request.body())
    content = "x" * 10_000_000 if scope["path"] == "/large" else str(size)
    await PlainTextResponse(content, status)(scope, receive, send)


@dataclass
class Served:
    """Where it listens, and what uvicorn knows of it."""

    url: str
    state: ServerState


Serve = Callable[..., Awaitable[Served]]


@pytest.fixture
async def serve(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Serve]:
    """Listen, with TLS if there is a certificate."""
    async with AsyncExitStack() as until_end:

        async def start(certificate: tuple[Path, Path] | None = None, **limits: float) -> Served:
            for name, value in limits.items():
                monkeypatch.setattr(connections, name, value)
            config = uvicorn.Config(app, http=HttpConnection, ws="none", log_config=None, access_log=False)
            tls = None
            if certificate is not None:
                tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
                tls.load_cert_chain(*certificate)
            state, sockets = ServerState(), bind("127.0.0.1", 0)
            listener = Listener(sockets, partial(HttpConnection, config=config, server_state=state, app_state={}), tls)
            listener.start()

            async def stop() -> None:
                listener.close()
                for connection in list(state.connections):
                    connection.transport.abort()
                await until(lambda: not state.connections)
                for each in sockets:
                    each.close()

            until_end.push_async_callback(stop)
            return Served(f"http://127.0.0.1:{port_of(sockets)}", state)

        yield start


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ", b"POST / HTTP/1.1\r\nHost: x\r\nCon"])
async def test_a_header_that_does_not_come_is_given_up(serve: Serve, connect: Connect, sent: bytes) -> None:
    connection = await connect((await serve(REQUEST_SECONDS=SHORT)).url)
    connection.write(sent)
    assert await connection.end() == b""


async def test_a_body_that_does_not_come_is_given_up(serve: Serve, connect: Connect) -> None:
    connection = await connect((await serve(REQUEST_SECONDS=SHORT)).url)
    connection.begin("POST", "/", BODY, b"some of it")
    assert await connection.end() == b""


async def test_the_second_request_of_a_connection_has_its_own_time(serve: Serve, connect: Connect) -> None:
    connection = await connect((await serve(REQUEST_SECONDS=SHORT)).url)
    connection.begin("GET", "/")
    assert (await connection.answer()).status == 200
    connection.begin("POST", "/", BODY, b"some of it")
    assert await connection.end() == b""


async def test_a_refusal_can_be_read_and_then_the_rest_is_not_awaited(serve: Serve, connect: Connect) -> None:
    served = await serve(LINGER_SECONDS=SHORT)
    connection = await connect(served.url)
    connection.begin("POST", "/refused", BODY, b"x" * 500_000)
    assert (await connection.answer()).status == 401
    assert await connection.end() == b""


async def test_after_a_refusal_of_little_the_connection_goes_on(serve: Serve, connect: Connect) -> None:
    connection = await connect((await serve()).url)
    connection.begin("POST", "/refused", {"Content-Length": "10"}, b"12345")
    assert (await connection.answer()).status == 401
    connection.write(b"67890")
    connection.begin("GET", "/")
    assert (await connection.answer()).status == 200


async def test_who_does_not_read_the_answer_is_disconnected(serve: Serve, connect: Connect) -> None:
    served = await serve(READ_SECONDS=SHORT)
    connection = await connect(served.url)
    connection.begin("GET", "/large")
    await until(lambda: served.state.total_requests)
    await until(lambda: not served.state.connections)


async def test_answers_are_sent_without_delay(serve: Serve, connect: Connect) -> None:
    served = await serve()
    connection = await connect(served.url)
    connection.begin("GET", "/")
    await connection.answer()
    [http] = served.state.connections
    assert http.transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_the_oldest_stranger_gives_way_and_an_operator_stays(serve: Serve, connect: Connect) -> None:
    served = await serve(MOST_CONNECTIONS=3)
    operator = await connect(served.url)
    operator.begin("GET", "/operator")
    assert (await operator.answer()).status == 200
    silent = [await connect(served.url) for _ in range(4)]
    assert [await connection.end() for connection in silent[:2]] == [b"", b""]
    operator.begin("GET", "/")
    assert (await operator.answer()).status == 200
    silent[3].begin("GET", "/")
    assert (await silent[3].answer()).status == 200


async def test_a_handshake_that_does_not_come_is_given_up_or_gives_way(
    serve: Serve, connect: Connect, tmp_path: Path
) -> None:
    certificate = make_certificate(tmp_path, "console")
    first = await connect((await serve(certificate, HANDSHAKE_SECONDS=SHORT)).url)
    assert await first.end() == b""
    served = await serve(certificate, HANDSHAKE_SECONDS=60.0, MOST_TLS_CONNECTIONS=2)
    silent = [await connect(served.url) for _ in range(3)]
    assert await silent[0].end() == b""
    trust = ssl.create_default_context(cafile=str(certificate[0]))
    speaks = await connect(served.url, trust)
    speaks.begin("GET", "/")
    assert (await speaks.answer()).status == 200
