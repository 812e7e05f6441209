"""The load, a process of its own: `python -m bench.torture.load TASK`, where TASK is JSON. It can be killed.

It writes each event to its standard output as a line of JSON before it goes on, so that what it had in hand when it was
killed is known. It stops when its standard input ends.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from contextlib import AsyncExitStack
from typing import Any

import msgspec

from bench.torture import uses
from bench.torture.actors import Recorder
from bench.torture.history import Event

CALLS_PER_GENERATION = 10**9


class Task(msgspec.Struct, frozen=True):
    """What a load process is to do."""

    hosts: tuple[str, ...]
    database: str
    uses: tuple[str, ...]
    generation: int
    patch: str = ""
    """Python that plants a defect in the client."""


_encode = msgspec.json.Encoder().encode


def _write(event: Event) -> None:
    line = _encode(event) + b"\n"
    while line:  # a pipe may take a part
        line = line[os.write(sys.stdout.fileno(), line) :]


async def main(task: Task) -> None:
    """Act until standard input ends."""
    random.seed(task.generation)
    async with AsyncExitStack() as exits:
        recorder = Recorder(_write, task.generation * CALLS_PER_GENERATION)
        stage = uses.Stage(task.hosts, task.database, task.generation, recorder, exits)
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        stopping = asyncio.create_task(_stop_at_end(reader, stage.stopping))
        await uses.act(stage, task.uses)
        await stopping


async def _stop_at_end(reader: asyncio.StreamReader, stopping: asyncio.Event) -> None:
    await reader.read()
    stopping.set()


if __name__ == "__main__":
    _task = msgspec.json.decode(sys.argv[1], type=Task)
    _planted: dict[str, Any] = {}
    exec(_task.patch, _planted)
    asyncio.run(main(_task))
