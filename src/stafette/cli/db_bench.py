"""`stafette db bench`: how fast is the database alone, without a broker before it?"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from typing import Annotated

import typer
import uvloop

from stafette.cli.bench import shares, show_tally
from stafette.cli.db import Data, Database, app, database_url
from stafette.cli.output import Json
from stafette.database.requests import Ask, Identity, Send
from stafette.database.store import Store
from stafette.errors import StafetteError
from stafette.load import Load, Tally

OPERATIONS = ("send", "receive")


@app.command()
def bench(
    data: Data = None,
    database: Database = None,
    connections: Annotated[int, typer.Option("--connections", min=1)] = 4,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Requests in each call.")] = 32,
    seconds: Annotated[float, typer.Option("--seconds", min=0.1)] = 10.0,
    size: Annotated[int, typer.Option("--size", min=0, help="Bytes in each message.")] = 200,
    queues: Annotated[int, typer.Option("--queues", min=1)] = 20,
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
    tally, chance = Tally(), random.Random(load.seed)  # noqa: S311
    names = [f"bench-{number}" for number in range(load.queues)]
    async with await Store.open(load.url, connections=load.clients) as store:
        me = await store.register("db-bench")
        for name in names:
            await store.create_queue(me.id, name, exist_ok=True)
        started = time.perf_counter()
        loops = (
            _loop(store, me, load, batch, names, tally, chance, started + load.seconds) for _ in range(load.clients)
        )
        await asyncio.gather(*loops)
        tally.elapsed = time.perf_counter() - started
    return tally


async def _loop(
    store: Store,
    me: Identity,
    load: Load,
    batch: int,
    names: list[str],
    tally: Tally,
    chance: random.Random,
    stop: float,
) -> None:
    """One connection's share. All loops draw from one source of chance, or they would all choose the same queues."""
    body = b"x" * load.size
    while (now := time.perf_counter()) < stop:
        chosen = [chance.choice(names) for _ in range(batch)]
        answers: Sequence[object]
        if chance.choices(list(load.mix), list(load.mix.values())) == ["send"]:
            answers = await store.send([Send(me.id, (queue,), body) for queue in chosen])
            outcome = "send"
        else:
            answers = await store.receive([Ask(me.id, queue) for queue in chosen])
            outcome = "receive"
        took = time.perf_counter() - now
        for answer in answers:
            if isinstance(answer, StafetteError):
                tally.errors[type(answer).__name__] += 1
            else:
                tally.answered[outcome if answer else "empty"] += 1
                tally.response_seconds.append(took)
