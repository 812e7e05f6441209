"""Three couriers pass a message on: each leases it from its own queue and sends it to the next.

python examples/relay.py stafette://127.0.0.1:7470
"""

from __future__ import annotations

import asyncio
import sys

import stafette

COURIERS = ("anna", "ben", "carla")


async def carry(url: str, name: str, to: str) -> None:
    async with await stafette.aio.connect(url, name=name) as client, client.lease(f"to {name}", wait=10.0) as work:
        assert work is not None
        print(f"{name} has {work.message.text!r}, priority {work.message.priority}")
        await client.send(f"to {to}", f"{work.message.text}, by {name}", priority=work.message.priority)


async def main(url: str) -> None:
    async with await stafette.aio.connect(url, name="sender") as client:
        for name in (*COURIERS, "sender"):
            await client.create_queue(f"to {name}", exist_ok=True)
        couriers = [carry(url, name, to) for name, to in zip(COURIERS, (*COURIERS[1:], "sender"), strict=True)]
        await client.send(f"to {COURIERS[0]}", "a letter", priority=7)
        await asyncio.gather(*couriers)
        letter = await client.receive("to sender", wait=10.0)
        assert letter is not None
        print(f"it came back as {letter.text!r}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
