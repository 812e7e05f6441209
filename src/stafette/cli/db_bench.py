"""`stafette db bench`: measures the database alone, without a broker."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from functools import partial
from typing import Annotated, cast

import typer
import uvloop

from stafette.cli.bench import shares, show_tally
from stafette.cli.db import Data, Database, app, database_url
from stafette.cli.output import Json
from stafette.database.messages import ReadRequest, SendRequest
from stafette.database.store import Store
from stafette.errors import StafetteError
from stafette.load.bench_load import Load, Tally
from stafette.load.generator import ClientGroup, Generator, Participant
from stafette.load.precise_timer import SECOND
from stafette.model import Draft, Selection

OPERATIONS = ("send", "receive")


@app.command()
def bench(
    data: Data = None,
    database: Database = None,
    connections: Annotated[int, typer.Option("--connections", min=1, help="Number of database connections.")] = 4,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Requests in each call.")] = 32,
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, help="Length of the measurement.")] = 10.0,
    size: Annotated[int, typer.Option("--size", min=0, help="Bytes in each message.")] = 200,
    queues: Annotated[int, typer.Option("--queues", min=1, help="Number of queues.")] = 20,
    mix: Annotated[str, typer.Option("--mix", help=f"Shares of {' and '.join(OPERATIONS)}.")] = "send:1,receive:1",
    as_json: Json = False,
) -> None:
    """Measure the database without a broker: closed loops of batches, one commit each.

    Example: stafette db bench --batch 32 --connections 4 --json
    """
    url = database_url(data, database)
    load = Load(url, clients=connections, seconds=seconds, size=size, queues=queues, mix=shares(mix, OPERATIONS))
    show_tally(uvloop.run(_run(load, batch)), load, as_json=as_json)


async def _run(load: Load, batch: int) -> Tally:
    """Keep every connection busy with batches, chosen by their shares in the mix."""
    tally, source = Tally(), random.Random(load.seed)  # noqa: S311
    names = [f"bench-{number}" for number in range(load.queues)]
    async with await Store.open(load.url, connections=load.clients) as store:
        client = await store.clients.register("db-bench")
        for name in names:
            await store.queues.create(client.id, name, exist_ok=True)
        step = partial(_step, store, client.id, load, batch, names, source)
        group = ClientGroup(
            "db bench",
            [Participant(f"connection {number}", step, source) for number in range(load.clients)],
            observe=partial(_count, tally),
        )
        generator = Generator(
            [group],
            seconds=load.seconds,
            window=(0.0, load.seconds),
            requests=lambda: len(tally.response_seconds),
            report=lambda _progress: None,
        )
        started = time.perf_counter_ns()
        await generator.run(started)
        tally.elapsed = (time.perf_counter_ns() - started) / SECOND
    return tally


async def _step(
    store: Store, client: int, load: Load, batch: int, names: list[str], source: random.Random
) -> tuple[str, Sequence[object]]:
    """One batch. All connections share one random source: with equal sources they would choose the same queues."""
    queues = [source.choice(names) for _ in range(batch)]
    if source.choices(list(load.mix), list(load.mix.values())) == ["send"]:
        body = b"x" * load.size
        return "send", await store.messages.send([SendRequest(client, Draft((queue,), body)) for queue in queues])
    return "receive", await store.messages.receive([ReadRequest(client, Selection(queue)) for queue in queues])


def _count(tally: Tally, result: object, intended: int, started: int) -> None:
    """Count each request of a batch."""
    if isinstance(result, StafetteError):
        raise result  # the call failed: there is nothing to measure
    operation, answers = cast(tuple[str, Sequence[object]], result)
    for answer in answers:
        failed = isinstance(answer, StafetteError)
        tally.observe(answer if failed else operation if answer else "empty", intended, started)
