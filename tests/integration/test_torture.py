"""`make torture` works: a short run of it, one with a planted defect, which it finds, and its proxy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from bench.torture import defects, faults, proxy, uses
from bench.torture.runner import torture

STRIKES = 2
SECONDS = 30.0


@pytest.mark.slow
async def test_a_short_run_finds_nothing_wrong() -> None:
    use = next(use for use in uses.USES if use.name == "send with key")
    run = await torture(faults.BY_NAME["broker killed"], [use], strikes=STRIKES, seconds=SECONDS)
    assert run.strikes == STRIKES
    assert run.violations == []
    findings = run.findings[use.name]
    assert findings.answered >= STRIKES * 10
    assert findings.came_out >= findings.answered


@pytest.mark.slow
async def test_a_planted_defect_is_found() -> None:
    defect = next(defect for defect in defects.DEFECTS if defect.name == "an acknowledged message is kept")
    result = await defects.search(defect, lambda step: None)
    assert "duplicated" in result.flaws


@pytest.fixture
async def line() -> AsyncIterator[proxy.Proxy]:
    """A proxy before a server that says again what it hears."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1000):
            writer.write(data)
        writer.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)
        ended.set()

    ended = asyncio.Event()
    async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
        through = proxy.Proxy(server.sockets[0].getsockname()[1])
        await through.open()
        yield through
        await through.close()
        await ended.wait()


async def test_the_proxy_holds_answers_back(line: proxy.Proxy) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", line.port)
    writer.write(b"early ")
    assert await reader.readexactly(6) == b"early "
    line.hold()
    writer.write(b"late")
    await asyncio.wait_for(line.something_held.wait(), SECONDS)
    line.release()
    assert await reader.readexactly(4) == b"late"
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize("direction", ["to_client_left", "to_broker_left"])
async def test_the_proxy_cuts_a_connection_at_any_byte(line: proxy.Proxy, direction: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", line.port)
    writer.write(b"whole ")
    assert await reader.readexactly(6) == b"whole "
    [connection] = line.lines
    setattr(connection, direction, 3)
    writer.write(b"cut in the middle")
    assert b"cut".startswith(await reader.read())  # nothing of it, where the cut comes before the answer
    writer.close()
    await writer.wait_closed()
