"""Send a message in the same transaction that stores an order: both happen, or neither.

Run it against any database that `stafette db migrate` has prepared:

    python examples/transactional_send.py "$(stafette db url)"
"""

from __future__ import annotations

import asyncio
import sys

import asyncpg


async def main(url: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute("CREATE TABLE IF NOT EXISTS public.orders (item text)")
    client = await connection.fetchval("SELECT id FROM stafette.register('shop', 'full', NULL)")
    await connection.execute("SELECT stafette.create_queue($1, 'orders', exist_ok => true)", client)

    async with connection.transaction():
        await connection.execute("INSERT INTO public.orders VALUES ('a book')")
        message_id = await connection.fetchval("SELECT stafette.send('shop', 'orders', 'a book', priority => 7)")
    print(f"stored the order and sent message {message_id} in one commit")

    [message] = await connection.fetch("SELECT * FROM stafette.receive('shop', 'orders')")
    print(f"received message {message['id']}: {message['body'].decode()}, priority {message['priority']}")
    await connection.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
