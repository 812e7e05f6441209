"""The routes of the API."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Path, Query
from fastapi.responses import Response

from stafette.database.views import (
    ClientDetails,
    MessageCounts,
    MessageFilter,
    MessageState,
    QueueDetails,
    QueueOrder,
    QueueRow,
)
from stafette.web.access import Administrator, TheSite, Viewer, bearer
from stafette.web.api import answers
from stafette.web.api.answers import describes, json_answer, no_content
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


# Overview


@router.get("/overview", tags=["overview"], responses=describes(MessageCounts))
async def overview(site: TheSite, _operator: Viewer) -> Response:
    """Count everything: messages by state, clients, queues, brokers."""
    return json_answer(await site.console.message_counts())


@router.get("/history", tags=["overview"], responses=describes(answers.Points))
async def history(
    site: TheSite,
    _operator: Viewer,
    seconds: Annotated[int, Query(ge=10, le=MONTH, description="How far back.")] = 3600,
    span: Annotated[int, Query(ge=10, le=86400, multiple_of=10, description="Seconds per point.")] = 10,
) -> Response:
    """Show recent activity, in points of equal length."""
    since = datetime.now(UTC) - timedelta(seconds=seconds)
    return json_answer(answers.Points(await site.console.history(since=since, span=span)))


@router.get("/brokers", tags=["brokers"], responses=describes(answers.Brokers))
async def brokers(site: TheSite, _operator: Viewer) -> Response:
    """List the brokers with their metrics."""
    return json_answer(answers.Brokers(await site.console.brokers()))


@router.post("/brokers/{broker}/drain", tags=["brokers"], status_code=204, responses=no_content(404))
async def drain(broker: Annotated[int, Path(ge=1, le=2**31 - 1)], site: TheSite, operator: Administrator) -> None:
    """Drain a broker: it answers the requests in flight, sends its clients away, and exits."""
    await site.console.drain(operator, broker)


@router.get("/search", tags=["overview"], responses=describes(answers.Found))
async def search(site: TheSite, _operator: Viewer, text: Text = "") -> Response:
    """Find queues and clients by a part of their name, messages by their context or id."""
    results = await site.console.search(text)
    messages = [answers.message_row(message) for message in results.messages]
    return json_answer(answers.Found(results.queues, results.clients, messages))


@router.get("/audit", tags=["overview"], responses=describes(answers.Audit))
async def audit(
    site: TheSite, _operator: Viewer, before: Annotated[int | None, Query(ge=0, le=LARGEST)] = None, limit: Limit = 100
) -> Response:
    """List changes by operators, the newest first."""
    return json_answer(answers.Audit(await site.console.audit.lines(before=before, limit=limit)))


# Queues


@router.get("/queues", tags=["queues"], responses=describes(answers.QueuePage))
async def queues(
    site: TheSite,
    _operator: Viewer,
    text: Text = "",
    order: QueueOrder = "name",
    personal: bool | None = None,
    after: After = None,
    limit: Limit = 100,
) -> Response:
    """List queues."""
    rows, next_page = await site.console.queues(text=text, order=order, personal=personal, after=after, limit=limit)
    return json_answer(answers.QueuePage(rows, next_page))


@router.post("/queues", tags=["queues"], status_code=201, responses=describes(QueueRow, 404, 409, status=201))
async def create_queue(queue: NewQueue, site: TheSite, operator: Administrator) -> Response:
    """Create a queue."""
    row = await site.console.create_queue(operator, queue.name, queue.options)
    return json_answer(row, 201)


@router.get("/queues/{queue:name}", tags=["queues"], responses=describes(QueueDetails, 404))
async def queue(queue: Name, site: TheSite, _operator: Viewer) -> Response:
    """Show one queue."""
    return json_answer(await site.console.queue(queue))


@router.delete("/queues/{queue:name}", tags=["queues"], status_code=204, responses=no_content(404, 409))
async def delete_queue(queue: Name, site: TheSite, operator: Administrator, force: bool = False) -> None:
    """Delete a queue; with `force` also one that holds messages, with its messages."""
    await site.console.delete_queue(operator, queue, force=force)


@router.post("/queues/{queue:name}/purge", tags=["queues"], responses=describes(answers.Count, 404))
async def purge(queue: Name, site: TheSite, operator: Administrator) -> Response:
    """Delete the ready and delayed messages of a queue."""
    return json_answer(answers.Count(await site.console.purge(operator, queue)))


@router.post("/queues/{queue:name}/redrive", tags=["queues"], responses=describes(answers.Count, 404))
async def redrive(queue: Name, site: TheSite, operator: Administrator) -> Response:
    """Make the dead messages of a queue ready again."""
    return json_answer(answers.Count(await site.console.redrive(operator, queue)))


@router.post("/queues/{queue:name}/delete-dead", tags=["queues"], responses=describes(answers.Count, 404))
@router.post("/queues/{queue:name}/bury", include_in_schema=False)  # its name in earlier versions
async def delete_dead(queue: Name, site: TheSite, operator: Administrator) -> Response:
    """Delete the dead messages of a queue."""
    return json_answer(answers.Count(await site.console.delete_dead(operator, queue)))


# Messages


@router.get("/queues/{queue:name}/messages", tags=["messages"], responses=describes(answers.ApiMessagePage, 404))
async def browse(
    queue: Name,
    site: TheSite,
    _operator: Viewer,
    state: MessageState = "ready",
    sender: Annotated[str | None, Query(max_length=200)] = None,
    receiver: Annotated[str | None, Query(max_length=200, description="Empty: no receiver.")] = None,
    context: Annotated[int | None, Query(ge=-LARGEST - 1, le=LARGEST)] = None,
    priority: Annotated[int | None, Query(ge=1, le=10)] = None,
    older_than: Seconds = None,
    newer_than: Seconds = None,
    text: Annotated[str | None, Query(max_length=200, description="Part of the body.")] = None,
    after: After = None,
    limit: Limit = 100,
) -> Response:
    """List messages without receiving or locking them."""
    where = MessageFilter(
        sender=sender, receiver=receiver, context=context, priority=priority, older_than=older_than,
        newer_than=newer_than, text=text,
    )  # fmt: skip
    page = await site.console.messages(queue, state=state, where=where, after=after, limit=limit)
    rows = [answers.message_row(message) for message in page.messages]
    return json_answer(answers.ApiMessagePage(rows, page.next, page.looked_at))


@router.get("/queues/{queue:name}/messages/{message}", tags=["messages"], responses=describes(answers.ApiMessage, 404))
async def look(queue: Name, message: MessageId, site: TheSite, _operator: Viewer) -> Response:
    """Show one message without receiving it."""
    details = await site.console.message(queue, message)
    if details is None:
        raise HTTPException(404, f"there is no message {message} in queue {queue}; it may have been received")
    return json_answer(answers.full_message(details, details.state))


@router.post(
    "/queues/{queue:name}/messages", tags=["messages"], status_code=201,
    responses=describes(answers.Sent, 404, 409, 413, 504, status=201),
)  # fmt: skip
async def send(queue: Name, message: NewMessage, site: TheSite, operator: Administrator) -> Response:
    """Send a message through a broker; the answer comes when the message is on disk."""
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
    await site.console.audit.record(operator, "send", queue, f"message {ids[0]}")
    return json_answer(answers.Sent(ids), 201)


@router.post("/queues/{queue:name}/receive", tags=["messages"], responses=describes(answers.Messages, 404, 504))
async def receive(queue: Name, request: ReceiveRequest, site: TheSite, operator: Administrator) -> Response:
    """Receive messages; an empty list if none came in time."""
    client = await site.link.client()
    sender, context, order = request.sender, request.context, request.order
    first = await client.receive(queue, sender=sender, context=context, order=order, wait=request.wait)
    messages = [] if first is None else [first]
    if first is not None and request.count > 1:
        messages += await client.receive_many(queue, request.count - 1, sender=sender, context=context, order=order)
    if messages:
        await site.console.audit.record(operator, "receive", queue, f"{len(messages)} messages")
    return json_answer(answers.Messages([answers.full_message(message) for message in messages]))


# Clients


@router.get("/clients", tags=["clients"], responses=describes(answers.ClientPage))
async def clients(
    site: TheSite,
    _operator: Viewer,
    text: Text = "",
    online: bool | None = None,
    after: After = None,
    limit: Limit = 100,
) -> Response:
    """List clients."""
    rows, next_page = await site.console.clients(text=text, online=online, after=after, limit=limit)
    return json_answer(answers.ClientPage(rows, next_page))


@router.get("/clients/{client:name}", tags=["clients"], responses=describes(ClientDetails, 404))
async def client(client: Name, site: TheSite, _operator: Viewer) -> Response:
    """Show one client."""
    return json_answer(await site.console.client(client))


@router.delete("/clients/{client:name}", tags=["clients"], status_code=204, responses=no_content(404, 409))
async def delete_client(client: Name, site: TheSite, operator: Administrator) -> None:
    """Delete a client that is offline, with its personal queue and the messages addressed to it."""
    await site.console.delete_client(operator, client)


@router.post("/clients/{client:name}/disconnect", tags=["clients"], responses=describes(answers.Told, 404))
async def disconnect(client: Name, site: TheSite, operator: Administrator) -> Response:
    """End a client's session."""
    return json_answer(answers.Told(await site.console.disconnect(operator, client)))
