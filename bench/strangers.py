"""Measures the console under attack by strangers, beside a visitor who has logged in.

2,000 connections are silent, or send a header or a login without an end; others send bodies of 200 MB to the API, the
login and the import as fast as they are taken. Nobody of them has logged in. What the console hangs up on comes again.

    python -m bench.strangers [--seconds 60] [--rounds 3]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import re
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import uvloop
from rich.console import Console
from rich.table import Table

from bench.broker import STAFETTE
from bench.hostile import Watch

PORT = 7493
URL = f"http://127.0.0.1:{PORT}"
SLOW, LARGE = 2_000, 16
BODY = 200_000_000
CHUNK = bytes(2**16)
PAUSE = 0.25
"""Seconds after which somebody whose connection has ended comes again."""
DRIP = 1.0
"""Seconds between two bytes of those who send slowly."""
PAGES = ("/", "/queues", "/audit")

HOST = f"Host: 127.0.0.1:{PORT}\r\n"
FORM = "Content-Type: application/x-www-form-urlencoded\r\n"
BEGINNINGS = (
    "",
    f"GET /login HTTP/1.1\r\n{HOST}X-Slow: ",
    f"POST /login HTTP/1.1\r\n{HOST}{FORM}Content-Length: 10000\r\n\r\nsecret=",
    f"POST /api/v1/queues HTTP/1.1\r\n{HOST}Content-Type: application/json\r\nContent-Length: 10000\r\n\r\n",
)
LENGTH, CHUNKED = f"Content-Length: {BODY}\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n"
LARGE_BEGINNINGS = (
    f"POST /api/v1/queues HTTP/1.1\r\n{HOST}Content-Type: application/json\r\n{LENGTH}",
    f"POST /api/v1/queues HTTP/1.1\r\n{HOST}Content-Type: text/plain\r\nOrigin: https://evil.example\r\n{LENGTH}",
    f"POST /login HTTP/1.1\r\n{HOST}Content-Type: multipart/form-data; boundary=x\r\n{LENGTH}",
    f"POST /lab/import HTTP/1.1\r\n{HOST}Content-Type: multipart/form-data; boundary=x\r\n{LENGTH}",
    f"POST /login HTTP/1.1\r\n{HOST}{FORM}{CHUNKED}",
)


async def slow(number: int) -> None:
    """Begin a request, send a byte now and then, and come again when the console hangs up."""
    while True:
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
            try:
                writer.write(BEGINNINGS[number % len(BEGINNINGS)].encode())
                while not reader.at_eof() and not writer.is_closing():
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(DRIP):
                            await reader.read(2**16)
                    if number % len(BEGINNINGS):
                        writer.write(b"x")
            finally:
                writer.transport.abort()
        await asyncio.sleep(PAUSE)


async def large(number: int) -> None:
    """Send a body for as long as it is taken."""
    beginning = LARGE_BEGINNINGS[number % len(LARGE_BEGINNINGS)]
    chunk = b"10000\r\n" + CHUNK + b"\r\n" if CHUNKED in beginning else CHUNK
    while True:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", PORT)
            try:
                writer.write(beginning.encode())
                for _ in range(BODY // len(CHUNK)):
                    writer.write(chunk)
                    await writer.drain()
            finally:
                writer.transport.abort()
        await asyncio.sleep(PAUSE)


def strangers() -> None:
    """All of them, in a process of its own, until it is ended."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(65_536, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)

    async def attack_together() -> None:
        await asyncio.gather(*map(large, range(LARGE)), *map(slow, range(SLOW)))

    uvloop.run(attack_together())


@contextlib.contextmanager
def console() -> Iterator[tuple[int, str, Path]]:
    """A whole system; yields the console's process id, the administrator's secret, and its log."""
    with tempfile.TemporaryDirectory() as folder:
        options = ["--data", folder]
        try:
            started = subprocess.run(
                [STAFETTE, "up", *options, "--port", "0", "--web-port", str(PORT)],
                check=True,
                capture_output=True,
                text=True,
            )
            [secret] = re.findall(r"^secret +(\S+)", started.stderr, re.MULTILINE)
            [control] = Path(folder).glob("run/web-*.sock")
            yield int(control.stem.removeprefix("web-")), secret, Path(folder) / "web.log"
        finally:
            subprocess.run([STAFETTE, "down", *options], check=True, capture_output=True)


def visit(visitor: httpx.Client, seconds: float) -> list[float]:
    """Look at pages for some time; returns how many milliseconds each took."""
    times = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for page in PAGES:
            begun = time.perf_counter()
            visitor.get(page).raise_for_status()
            times.append((time.perf_counter() - begun) * 1000)
        time.sleep(0.05)  # a person looks at them, if not for long
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="how long they attack in all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    times: dict[bool, list[float]] = {False: [], True: []}
    most_kib = 0
    with console() as (pid, secret, log), httpx.Client(base_url=URL, timeout=60) as visitor:
        visitor.post("/login", data={"secret": secret})
        visit(visitor, 2.0)
        before = log.stat().st_size
        for _ in range(options.rounds):
            for attacked in (False, True):
                attackers = multiprocessing.Process(target=strangers, daemon=True)
                with Watch(pid) as watch:
                    if attacked:
                        attackers.start()
                        time.sleep(3.0)
                    times[attacked] += visit(visitor, options.seconds / options.rounds)
                    if attacked:
                        attackers.terminate()
                        attackers.join()
                        time.sleep(1.0)
                most_kib = max(most_kib, watch.most_kib)
        logged = log.stat().st_size - before
    medians = {attacked: statistics.median(times[attacked]) for attacked in times}
    p99 = {attacked: statistics.quantiles(times[attacked], n=100)[98] for attacked in times}
    figures = {
        "console_mib": most_kib / 1024, "log_kib": logged / 1024, "page_ms_alone": medians[False],
        "page_ms_attacked": medians[True], "page_ratio": medians[True] / medians[False],
        "p99_ms_alone": p99[False], "p99_ms_attacked": p99[True], "pages": len(times[True]),
    }  # fmt: skip
    if options.json:
        print(json.dumps(figures))
        return
    table = Table(f"{SLOW:,} slow strangers, {LARGE} with 200 MB, for {options.seconds:.0f} s", "measured", "target")
    table.add_row("the console's memory at most", f"{figures['console_mib']:,.0f} MiB", "< 400")
    table.add_row("its log", f"{figures['log_kib']:,.0f} KiB", "< 1,024")
    table.add_row("a visitor's page, alone and attacked", f"{medians[False]:.1f} and {medians[True]:.1f} ms", "")
    table.add_row("… attacked / alone", f"{figures['page_ratio']:.2f}", "< 2")
    table.add_row("p99 of a page, alone and attacked", f"{p99[False]:.1f} and {p99[True]:.1f} ms", "")
    Console().print(table)


if __name__ == "__main__":
    main()
