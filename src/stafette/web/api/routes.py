"""The routes of the API."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Path, Query
from fastapi.responses import Response

from stafette.database.views import (
    ClientDetails,
    MessageFilter,
    MessageState,
    QueueDetails,
    QueueOrder,
    QueueRow,
    Stock,
)
from stafette.web.access import Administrator, TheSite, Viewer, bearer
from stafette.web.api import answers
from stafette.web.api.answers import answered, describes, nothing
from stafette.web.api.parameters import (
    LARGEST,
    After,
    Limit,
    MessageId,
    Name,
    NewMessage,
    NewQueue,
    ReceiveRequest,
    Seconds,
    Text,
)

router = APIRouter(prefix="/api/v1", dependencies=[Depends(bearer)])

MONTH = 30 * 86400


# Everything at a glance


@router.get("/overview", tags=["overview"], responses=describes(Stock))
async def overview(site: TheSite, _who: Viewer) -> Response:
    """Count everything: messages by state, clients, queues, brokers."""
    return answered(await site.console.stock())


@router.get("/history", tags=["overview"], responses=describes(answers.Points))
async def history(
    site: TheSite,
    _who: Viewer,
    seconds: Annotated[int, Query(ge=10, le=MONTH, description="How far back.")] = 3600,
    span: Annotated[int, Query(ge=10, le=86400, multiple_of=10, description="Seconds per point.")] = 10,
) -> Response:
    """Show what happened lately, in points of equal length."""
    since = datetime.now(UTC) - timedelta(seconds=seconds)
    return answered(answers.Points(await site.console.history(since=since, span=span)))


@router.get("/brokers", tags=["brokers"], responses=describes(answers.Brokers))
async def brokers(site: TheSite, _who: Viewer) -> Response:
    """List the brokers with their figures."""
    return answered(answers.Brokers(await site.console.brokers()))


@router.post("/brokers/{broker}/drain", tags=["brokers"], status_code=204, responses=nothing(404))
async def drain(broker: Annotated[int, Path(ge=1, le=2**31 - 1)], site: TheSite, who: Administrator) -> None:
    """Let a broker finish what it has, say goodbye to its clients, and end."""
    await site.console.drain(who, broker)


@router.get("/search", tags=["overview"], responses=describes(answers.Found))
async def search(site: TheSite, _who: Viewer, text: Text = "") -> Response:
    """Find queues and clients by a part of their name, messages by their context or id."""
    found = await site.console.search(text)
    messages = [answers.row(message) for message in found.messages]
    return answered(answers.Found(found.queues, found.clients, messages))


@router.get("/audit", tags=["overview"], responses=describes(answers.Audit))
async def audit(
    site: TheSite, _who: Viewer, before: Annotated[int | None, Query(ge=0, le=LARGEST)] = None, limit: Limit = 100
) -> Response:
    """List what operators changed, the newest first."""
    return answered(answers.Audit(await site.console.audit.lines(before=before, limit=limit)))


# Queues


@router.get("/queues", tags=["queues"], responses=describes(answers.QueuePage))
async def queues(
    site: TheSite,
    _who: Viewer,
    text: Text = "",
    order: QueueOrder = "name",
    personal: bool | None = None,
    after: After = None,
    limit: Limit = 100,
) -> Response:
    """List queues."""
    found, further = await site.console.queues(text=text, order=order, personal=personal, after=after, limit=limit)
    return answered(answers.QueuePage(found, further))


@router.post("/queues", tags=["queues"], status_code=201, responses=describes(QueueRow, 404, 409, status=201))
async def create_queue(queue: NewQueue, site: TheSite, who: Administrator) -> Response:
    """Make a queue."""
    row = await site.console.create_queue(who, queue.name, queue.options)
    return answered(row, 201)


@router.get("/queues/{queue:name}", tags=["queues"], responses=describes(QueueDetails, 404))
async def queue(queue: Name, site: TheSite, _who: Viewer) -> Response:
    """Show one queue."""
    return answered(await site.console.queue(queue))


@router.delete("/queues/{queue:name}", tags=["queues"], status_code=204, responses=nothing(404, 409))
async def delete_queue(queue: Name, site: TheSite, who: Administrator, force: bool = False) -> None:
    """Delete a queue; with `force` also one that holds messages, and them with it."""
    await site.console.delete_queue(who, queue, force=force)


@router.post("/queues/{queue:name}/purge", tags=["queues"], responses=describes(answers.Count, 404))
async def purge(queue: Name, site: TheSite, who: Administrator) -> Response:
    """Remove all that waits in a queue."""
    return answered(answers.Count(await site.console.purge(who, queue)))


@router.post("/queues/{queue:name}/redrive", tags=["queues"], responses=describes(answers.Count, 404))
async def redrive(queue: Name, site: TheSite, who: Administrator) -> Response:
    """Put the dead messages of a queue back into it."""
    return answered(answers.Count(await site.console.redrive(who, queue)))


@router.post("/queues/{queue:name}/bury", tags=["queues"], responses=describes(answers.Count, 404))
async def bury(queue: Name, site: TheSite, who: Administrator) -> Response:
    """Remove the dead messages of a queue for good."""
    return answered(answers.Count(await site.console.delete_dead(who, queue)))


# Messages


@router.get("/queues/{queue:name}/messages", tags=["messages"], responses=describes(answers.ApiMessagePage, 404))
async def browse(
    queue: Name,
    site: TheSite,
    _who: Viewer,
    state: MessageState = "ready",
    sender: Annotated[str | None, Query(max_length=200)] = None,
    receiver: Annotated[str | None, Query(max_length=200, description="Empty: addressed to nobody.")] = None,
    context: Annotated[int | None, Query(ge=-LARGEST - 1, le=LARGEST)] = None,
    priority: Annotated[int | None, Query(ge=1, le=10)] = None,
    older_than: Seconds = None,
    newer_than: Seconds = None,
    text: Annotated[str | None, Query(max_length=200, description="Occurs in the body.")] = None,
    after: After = None,
    limit: Limit = 100,
) -> Response:
    """Look at messages without taking or locking any."""
    where = MessageFilter(
        sender=sender, receiver=receiver, context=context, priority=priority, older_than=older_than,
        newer_than=newer_than, text=text,
    )  # fmt: skip
    found = await site.console.messages(queue, state=state, where=where, after=after, limit=limit)
    rows = [answers.row(message) for message in found.messages]
    return answered(answers.ApiMessagePage(rows, found.next, found.looked_at))


@router.get("/queues/{queue:name}/messages/{message}", tags=["messages"], responses=describes(answers.ApiMessage, 404))
async def look(queue: Name, message: MessageId, site: TheSite, _who: Viewer) -> Response:
    """Look at one message."""
    found = await site.console.message(queue, message)
    if found is None:
        raise HTTPException(404, f"there is no message {message} in queue {queue}; it may have been received")
    return answered(answers.whole(found, found.state))


@router.post(
    "/queues/{queue:name}/messages", tags=["messages"], status_code=201,
    responses=describes(answers.Sent, 404, 409, 413, 504, status=201),
)  # fmt: skip
async def send(queue: Name, message: NewMessage, site: TheSite, who: Administrator) -> Response:
    """Send a message through a broker; when it is answered, the message is on disk."""
    client = await site.link.client()
    ids = await client.send(
        queue,
        message.content,
        receiver=message.receiver,
        allow_unknown=message.allow_unknown,
        priority=message.priority,
        context=message.context,
        headers=message.headers,
        delay=message.delay,
        ttl=message.ttl,
        key=message.key,
    )
    await site.console.audit.record(who, "send", queue, f"message {ids[0]}")
    return answered(answers.Sent(ids), 201)


@router.post("/queues/{queue:name}/receive", tags=["messages"], responses=describes(answers.Messages, 404, 504))
async def receive(queue: Name, wish: ReceiveRequest, site: TheSite, who: Administrator) -> Response:
    """Take messages out of a queue; none when there is none, or none came in time."""
    client = await site.link.client()
    first = await client.receive(queue, sender=wish.sender, context=wish.context, order=wish.order, wait=wish.wait)
    found = [] if first is None else [first]
    if first is not None and wish.count > 1:
        found += await client.receive_many(
            queue, wish.count - 1, sender=wish.sender, context=wish.context, order=wish.order
        )
    if found:
        await site.console.audit.record(who, "receive", queue, f"{len(found)} messages")
    return answered(answers.Messages([answers.whole(message) for message in found]))


# Clients


@router.get("/clients", tags=["clients"], responses=describes(answers.ClientPage))
async def clients(
    site: TheSite, _who: Viewer, text: Text = "", online: bool | None = None, after: After = None, limit: Limit = 100
) -> Response:
    """List clients."""
    found, further = await site.console.clients(text=text, online=online, after=after, limit=limit)
    return answered(answers.ClientPage(found, further))


@router.get("/clients/{client:name}", tags=["clients"], responses=describes(ClientDetails, 404))
async def client(client: Name, site: TheSite, _who: Viewer) -> Response:
    """Show one client."""
    return answered(await site.console.client(client))


@router.delete("/clients/{client:name}", tags=["clients"], status_code=204, responses=nothing(404, 409))
async def delete_client(client: Name, site: TheSite, who: Administrator) -> None:
    """Delete a client that is offline, with its personal queue and what waits for it."""
    await site.console.delete_client(who, client)


@router.post("/clients/{client:name}/disconnect", tags=["clients"], responses=describes(answers.Told, 404))
async def disconnect(client: Name, site: TheSite, who: Administrator) -> Response:
    """End a client's session."""
    return answered(answers.Told(await site.console.disconnect(who, client)))
