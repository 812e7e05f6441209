"""The database call of each kind of request: from requests to the Store's structs, and from its answers back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from stafette.broker.core.broker import Outcome
from stafette.broker.core.dispatcher import Batch
from stafette.broker.core.operation import (
    ACK,
    EXTEND,
    GIVE_BACK,
    LARGE_SEND,
    LEASE,
    NACK,
    PEEK,
    RECEIVE,
    SEND,
    Operation,
)
from stafette.broker.core.session import Session
from stafette.database.messages import (
    BatchFull,
    ExtendRequest,
    GaveUp,
    LeaseRequest,
    NackRequest,
    ReadRequest,
    SendRequest,
)
from stafette.database.store import Store
from stafette.errors import MessageTooLarge, StafetteError
from stafette.model import LeaseRef
from stafette.protocol import messages as wire

NAMES_BYTES = 2_500
"""The names in a message take no more: three of 200 characters, of four bytes each."""

Item = tuple[Session, Any]
Perform = Callable[[Sequence[Item]], Awaitable[Sequence[Outcome]]]


class Operations:
    """The database calls for each kind of request."""

    def __init__(self, store: Store, *, answer_bytes: int, arrived: Callable[[str], None]) -> None:
        self._store = store
        self._answer_bytes = answer_bytes
        self._arrived = arrived
        self.broker_id = 0
        """The broker in the database, which holds the sessions."""
        self._batched: dict[Operation, Perform] = {
            SEND: self._send,
            LARGE_SEND: self._send,
            RECEIVE: self._receive,
            PEEK: self._peek,
            LEASE: self._lease,
            ACK: self._ack,
            NACK: self._nack,
            EXTEND: self._extend,
            GIVE_BACK: self._give_back,
        }
        self._single: dict[type, Callable[[Session, Any], Awaitable[Outcome]]] = {
            wire.Bye: self._bye,
            wire.Browse: self._browse,
            wire.CreateQueue: self._create_queue,
            wire.DeleteQueue: self._delete_queue,
            wire.LookUpQueue: self._look_up_queue,
            wire.ListQueues: self._list_queues,
            wire.WaitingQueues: self._waiting_queues,
            wire.LookUpPersonalQueue: self._look_up_personal_queue,
            wire.Purge: self._purge,
            wire.LookUpClient: self._look_up_client,
            wire.ListClients: self._list_clients,
            wire.DeleteClient: self._delete_client,
        }

    async def perform(self, batch: Batch) -> Sequence[Outcome]:
        """Call the database for a batch; one outcome for each of its tickets, in their order."""
        items = [(ticket.session, ticket.request) for ticket in batch.tickets]
        if batch.operation.batched:
            return await self._batched[batch.operation](items)
        [(session, request)] = items
        return [await self._single[type(request)](session, request)]

    async def _send(self, items: Sequence[Item]) -> Sequence[Outcome]:
        answers = await self._store.messages.send_together(
            [
                [SendRequest(session.client, draft, request.key) for draft in request.drafts]
                for session, request in items
            ]
        )
        return [
            answer if isinstance(answer, StafetteError) else wire.Sent(request.id, answer)
            for (_, request), answer in zip(items, answers, strict=True)
        ]

    async def _receive(self, items: Sequence[Item]) -> Sequence[Outcome]:
        requests = [
            ReadRequest(session.client, request.selection, **_origin(session, request), seen=request.seen)
            for session, request in items
        ]
        answers = await self._store.messages.receive(requests, budget=self._answer_bytes, broker=self.broker_id)
        return _read_answers(wire.Messages, items, answers)

    async def _give_back(self, items: Sequence[Item]) -> Sequence[Outcome]:
        requests = [
            GaveUp(session.client, session.number, request.request)
            for session, request in items
            if session.number is not None
        ]
        for queue in await self._store.messages.give_back_received(requests) if requests else ():
            self._arrived(queue)
        return [wire.Done(request.id) for _, request in items]

    async def _peek(self, items: Sequence[Item]) -> Sequence[Outcome]:
        asks = [_read(*item) for item in items]
        return _read_answers(wire.Messages, items, await self._store.messages.peek(asks, budget=self._answer_bytes))

    async def _lease(self, items: Sequence[Item]) -> Sequence[Outcome]:
        answers = await self._store.messages.lease(
            [
                LeaseRequest(session.client, request.selection, request.seconds, **_origin(session, request))
                for session, request in items
            ],
            budget=self._answer_bytes,
            broker=self.broker_id,
        )
        return _read_answers(wire.Leases, items, answers)

    async def _ack(self, items: Sequence[Item]) -> Sequence[Outcome]:
        return _done_answers(
            items,
            await self._store.messages.ack(
                [LeaseRef(session.client, request.message, request.token) for session, request in items]
            ),
        )

    async def _nack(self, items: Sequence[Item]) -> Sequence[Outcome]:
        requests = [
            NackRequest(session.client, request.message, request.token, request.delay) for session, request in items
        ]
        answers = await self._store.messages.nack(requests)
        for queue in {answer for answer in answers if isinstance(answer, str)}:
            self._arrived(queue)
        return _done_answers(items, [answer if isinstance(answer, StafetteError) else None for answer in answers])

    async def _extend(self, items: Sequence[Item]) -> Sequence[Outcome]:
        return _done_answers(
            items,
            await self._store.messages.extend(
                [
                    ExtendRequest(session.client, request.message, request.token, request.seconds)
                    for session, request in items
                ]
            ),
        )

    async def _bye(self, session: Session, request: wire.Bye) -> Outcome:
        if request.seen and session.number is not None:
            await self._store.messages.forget_seen(session.number, request.seen)
        await self._store.clients.release_sessions([(session.client, session.token)], for_good=True)
        return wire.Done(request.id)

    async def _browse(self, session: Session, request: wire.Browse) -> Outcome:
        limit, budget, takes = request.limit, self._answer_bytes, session.max_answer
        if takes is not None:  # half of it for the names
            limit, budget = min(limit, max(1, takes // (2 * NAMES_BYTES))), min(budget, takes // 2)
        page = await self._store.messages.browse(
            request.queue, viewer=session.client, after=request.after, limit=limit, budget=budget
        )
        answer = wire.Messages(request.id, page)
        if takes is not None and len(page) == 1 and len(wire.encode(answer)) > takes:
            return MessageTooLarge(f"the next message is larger than the {takes} bytes that the client takes")
        return answer

    async def _create_queue(self, session: Session, request: wire.CreateQueue) -> Outcome:
        queue = await self._store.queues.create(
            session.client,
            request.queue,
            request.options,
            exist_ok=request.exist_ok,
            session=session.number,
            request=request.id,
        )
        return wire.Queues(request.id, [queue])

    async def _delete_queue(self, session: Session, request: wire.DeleteQueue) -> Outcome:
        await self._store.queues.delete(session.client, request.queue, force=request.force)
        return wire.Done(request.id)

    async def _look_up_queue(self, _session: Session, request: wire.LookUpQueue) -> Outcome:
        return wire.Queues(request.id, [await self._store.queues.get(request.queue)])

    async def _list_queues(self, _session: Session, request: wire.ListQueues) -> Outcome:
        return wire.Queues(request.id, await self._store.queues.all())

    async def _waiting_queues(self, session: Session, request: wire.WaitingQueues) -> Outcome:
        return wire.Queues(request.id, await self._store.queues.waiting(session.client, limit=request.limit))

    async def _look_up_personal_queue(self, _session: Session, request: wire.LookUpPersonalQueue) -> Outcome:
        return wire.Queues(request.id, [await self._store.queues.personal(request.client)])

    async def _purge(self, session: Session, request: wire.Purge) -> Outcome:
        return wire.Counted(request.id, await self._store.queues.purge(session.client, request.queue))

    async def _look_up_client(self, _session: Session, request: wire.LookUpClient) -> Outcome:
        return wire.Clients(request.id, [await self._store.clients.get(request.client)])

    async def _list_clients(self, _session: Session, request: wire.ListClients) -> Outcome:
        return wire.Clients(request.id, await self._store.clients.all())

    async def _delete_client(self, session: Session, request: wire.DeleteClient) -> Outcome:
        if request.client == session.name:
            await self._store.clients.release_sessions([(session.client, session.token)], for_good=True)
        await self._store.clients.delete(request.client, by=session.client)
        return wire.Done(request.id)


def _origin(session: Session, request: wire.Receive | wire.Lease) -> dict[str, Any]:
    return {
        "max_bytes": session.max_answer,
        "token": session.token,
        "session": session.number,
        "request": request.id,
        "again": request.again,
    }


def _read(session: Session, request: Any) -> ReadRequest:
    return ReadRequest(session.client, request.selection, max_bytes=session.max_answer)


def _read_answers(
    kind: type[wire.Messages | wire.Leases], items: Sequence[Item], answers: Sequence[Any]
) -> list[Outcome]:
    return [
        kind(request.id, answer) if type(answer) is list else None if type(answer) is BatchFull else answer
        for (_, request), answer in zip(items, answers, strict=True)
    ]


def _done_answers(items: Sequence[Item], answers: Sequence[StafetteError | None]) -> list[Outcome]:
    return [answer or wire.Done(request.id) for (_, request), answer in zip(items, answers, strict=True)]
