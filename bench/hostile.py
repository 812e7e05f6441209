"""Measures a broker under attack: fifty hostile clients for a minute, beside 32 that behave.

Some send frames of 16 MiB as fast as they can, some one message of 1 MiB to 1,000 queues, some small ones to 1,000
queues; some let frames hang unfinished, some ask for large answers and never read them, some send requests before they
have said hello. What a broker refuses or hangs up on is tried again at once.

    python -m bench.hostile [--seconds 60] [--rounds 3]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import socket
import statistics
import struct
import threading
import time
from collections.abc import Awaitable, Callable

import uvloop
from rich.console import Console
from rich.table import Table

import stafette
from bench.broker import PORT, URL, system, through_broker
from bench.limits import resident_kib
from stafette.model import Draft
from stafette.protocol import messages as wire
from stafette.protocol.frames import HEADER_BYTES, frame

HOSTILE, OTHERS, QUEUES = 50, 32, 1_000
MEBIBYTE = 2**20
QUEUE_NAMES = tuple(f"hostile-{number}" for number in range(QUEUES))
LARGE = "hostile-large"
PAUSE = 0.01
"""Seconds after which a client whose connection has ended comes again."""

Attack = Callable[[asyncio.StreamReader, asyncio.StreamWriter, int], Awaitable[None]]


async def huge_frames(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _number: int) -> None:
    """The largest message that there is room for, again and again."""
    data = frame(wire.encode(wire.Send(2, [Draft((LARGE,), bytes(16 * MEBIBYTE - 100))])))
    while True:
        writer.write(data)
        await writer.drain()
        await read_answer(reader)


async def many_queues(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
    """A message to 1,000 queues: of 1 MiB, or of a size that is just accepted."""
    data = frame(wire.encode(wire.Send(2, [Draft(QUEUE_NAMES, bytes(MEBIBYTE if number % 2 else 60_000))])))
    while True:
        writer.write(data)
        await writer.drain()
        await read_answer(reader)


async def many_small_sends(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _number: int) -> None:
    """Small messages to 1,000 queues, as many at once as a client may have in flight."""
    data = frame(wire.encode(wire.Send(2, [Draft(QUEUE_NAMES, b"work")])))
    while True:
        writer.write(data * 100)
        await writer.drain()
        for _ in range(100):
            await read_answer(reader)


async def unfinished_frames(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _number: int) -> None:
    """A frame that lacks its last byte."""
    size = 16 * MEBIBYTE
    writer.write(struct.pack(">I", size) + bytes(size - 1))
    await reader.read()


async def never_reading(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _number: int) -> None:
    """Asks for all it can get, and reads nothing."""
    while True:
        writer.write(frame(wire.encode(wire.Browse(2, LARGE, limit=10_000))) * 100)
        writer.write(frame(wire.encode(wire.Echo(3, bytes(MEBIBYTE)))))
        await writer.drain()


async def before_hello(number: int) -> None:
    """Requests behind a hello that takes a while, and requests without one."""
    reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
    try:
        hello = frame(wire.encode(wire.Hello(1, wire.VERSION, f"stranger-{number}", secret="wrong")))
        writer.write((hello if number % 2 else b"") + frame(wire.encode(wire.Echo(2, bytes(8_000)))) * 2_000)
        await reader.read()
    finally:
        writer.close()


ATTACKS: tuple[Attack, ...] = (huge_frames, many_queues, many_small_sends, unfinished_frames, never_reading)


async def read_answer(reader: asyncio.StreamReader) -> None:
    await reader.readexactly(int.from_bytes(await reader.readexactly(HEADER_BYTES), "big"))


async def attack(number: int) -> None:
    """One hostile client: what it does, over and over."""
    kind = number % (len(ATTACKS) + 1)
    while True:
        try:
            if kind == len(ATTACKS):
                await before_hello(number)
            else:
                sock = socket.create_connection(("127.0.0.1", PORT))
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
                reader, writer = await asyncio.open_connection(sock=sock, limit=2**16)
                try:
                    writer.write(frame(wire.encode(wire.Hello(1, wire.VERSION, f"hostile-{number}"))))
                    await read_answer(reader)
                    await ATTACKS[kind](reader, writer, number)
                finally:
                    writer.transport.abort()
        except (OSError, asyncio.IncompleteReadError):
            pass
        await asyncio.sleep(PAUSE)


def hostile_clients() -> None:
    """All of them, in a process of its own, until it is ended."""

    async def attack_together() -> None:
        await asyncio.gather(*(attack(number) for number in range(HOSTILE)))

    uvloop.run(attack_together())


class Watch:
    """Notes the largest memory of a process while it lasts."""

    def __init__(self, pid: int) -> None:
        self.most_kib = 0
        self._pid = pid
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.02):
            self.most_kib = max(self.most_kib, resident_kib(self._pid))


async def prepare() -> None:
    async with await stafette.aio.connect(URL, name="prepares") as client:
        for start in range(0, QUEUES, 100):
            await asyncio.gather(*(client.create_queue(name) for name in QUEUE_NAMES[start : start + 100]))
        await client.create_queue(LARGE, max_body=64 * MEBIBYTE)
        for _ in range(20):
            await client.send(LARGE, bytes(MEBIBYTE))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="how long they attack in all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    seconds = options.seconds / options.rounds
    p99: dict[bool, list[float]] = {False: [], True: []}
    rates: dict[bool, list[float]] = {False: [], True: []}
    refused = 0
    most_kib = 0
    with system() as (_, broker):
        uvloop.run(prepare())
        through_broker(2, OTHERS)
        for _ in range(options.rounds):
            for attacked in (False, True):
                attackers = multiprocessing.Process(target=hostile_clients, daemon=True)
                with Watch(broker) as watch:
                    if attacked:
                        attackers.start()
                        time.sleep(1.0)
                    result = through_broker(seconds, OTHERS)
                    if attacked:
                        attackers.terminate()
                        attackers.join()
                most_kib = max(most_kib, watch.most_kib)
                refused += result["errors"]
                p99[attacked].append(result["p99_ms"])
                rates[attacked].append(result["requests_per_second"])
            time.sleep(1.0)
    quiet, attacked_p99 = (statistics.median(p99[attacked]) for attacked in (False, True))
    figures = {
        "broker_mib": most_kib / 1024,
        "p99_ms_alone": quiet,
        "p99_ms_attacked": attacked_p99,
        "p99_ratio": attacked_p99 / quiet,
        "rate_ratio": statistics.median(rates[True]) / statistics.median(rates[False]),
        "errors": refused,
    }
    if options.json:
        print(json.dumps(figures))
        return
    table = Table(f"{HOSTILE} hostile clients for {options.seconds:.0f} s", "measured", "target")
    table.add_row("the broker's memory at most", f"{figures['broker_mib']:,.0f} MiB", "< 1,024")
    table.add_row(f"p99 of {OTHERS} others, alone and attacked", f"{quiet:.1f} and {attacked_p99:.1f} ms", "")
    table.add_row("… attacked / alone", f"{figures['p99_ratio']:.1f}", "< 3")
    table.add_row("their requests per second, attacked / alone", f"{figures['rate_ratio']:.2f}", "")
    table.add_row("their errors", f"{refused:,}", "0")
    Console().print(table)


if __name__ == "__main__":
    main()
