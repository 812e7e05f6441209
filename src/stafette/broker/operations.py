"""What each kind of request does in the database: from requests to the Store's structs, and from its answers back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from stafette.broker.session import Session
from stafette.database.requests import Ask, Held, LeaseAsk
from stafette.database.requests import Send as StoreSend
from stafette.database.store import Store
from stafette.errors import StafetteError
from stafette.protocol import messages as wire

Item = tuple[Session, Any]
Outcome = wire.Answer | StafetteError
Perform = Callable[[Sequence[Item]], Awaitable[Sequence[Outcome]]]


class Operation:
    """One way to work on requests: in batches or singly, and which of a session's requests may share a batch."""

    def __init__(self, perform: Perform, *, batched: bool, hands_out: bool = False) -> None:
        self.perform = perform
        self.batched = batched
        self.hands_out = hands_out

    def __repr__(self) -> str:
        return self.perform.__name__

    def combines(self, read: dict[str | None, Any], request: Any) -> bool:
        """Whether a request may share a batch with the earlier ones of a run, their order kept.

        Reads may when they read the same, or in queues that have nothing to do with one another. What the run reads in
        each queue is noted on the way.
        """
        if not self.batched or not self.hands_out:
            return self.batched
        wanted = request.selection
        same = read.setdefault(wanted.queue, wanted) == wanted
        return same and (len(read) == 1 or None not in read)


class Operations:
    """The operation for each kind of request."""

    def __init__(self, store: Store, *, arrived: Callable[[str], None]) -> None:
        self._store = store
        self._arrived = arrived
        self.by_kind: dict[type, Operation] = {
            wire.Send: Operation(self._send, batched=True),
            wire.Receive: Operation(self._receive, batched=True, hands_out=True),
            wire.Peek: Operation(self._peek, batched=True),
            wire.Lease: Operation(self._lease, batched=True, hands_out=True),
            wire.Ack: Operation(self._ack, batched=True),
            wire.Nack: Operation(self._nack, batched=True),
            wire.Extend: Operation(self._extend, batched=True),
        }
        self._single = Operation(self._one, batched=False)
        self._by_kind_single: dict[type, Callable[[Session, Any], Awaitable[Outcome]]] = {
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

    def of(self, request: wire.Request) -> Operation:
        """The operation that serves a request."""
        return self.by_kind.get(type(request), self._single)

    async def _send(self, items: Sequence[Item]) -> Sequence[Outcome]:
        answers = await self._store.send_together(
            [
                [
                    StoreSend(
                        session.client, draft.queues, draft.body, draft.receiver, draft.priority, draft.context,
                        draft.headers, draft.delay, draft.ttl, request.key, draft.allow_unknown,
                    )
                    for draft in request.drafts
                ]
                for session, request in items
            ]
        )  # fmt: skip
        return [
            answer if isinstance(answer, StafetteError) else wire.Sent(request.id, answer)
            for (_, request), answer in zip(items, answers, strict=True)
        ]

    async def _receive(self, items: Sequence[Item]) -> Sequence[Outcome]:
        return _messages(items, await self._store.receive([_ask(*item) for item in items]))

    async def _peek(self, items: Sequence[Item]) -> Sequence[Outcome]:
        return _messages(items, await self._store.peek([_ask(*item) for item in items]))

    async def _lease(self, items: Sequence[Item]) -> Sequence[Outcome]:
        answers = await self._store.lease([LeaseAsk(_ask(*item), item[1].seconds) for item in items])
        return [
            answer
            if isinstance(answer, StafetteError)
            else wire.Leases(request.id, [wire.Leased(lease.message, lease.token) for lease in answer])
            for (_, request), answer in zip(items, answers, strict=True)
        ]

    async def _ack(self, items: Sequence[Item]) -> Sequence[Outcome]:
        return _done(items, await self._store.ack([Held(request.message, request.token) for _, request in items]))

    async def _nack(self, items: Sequence[Item]) -> Sequence[Outcome]:
        given_back = [Held(request.message, request.token, request.delay) for _, request in items]
        answers = await self._store.nack(given_back)
        for queue in {answer for answer in answers if isinstance(answer, str)}:
            self._arrived(queue)
        return _done(items, [answer if isinstance(answer, StafetteError) else None for answer in answers])

    async def _extend(self, items: Sequence[Item]) -> Sequence[Outcome]:
        return _done(
            items,
            await self._store.extend(
                [Held(request.message, request.token, seconds=request.seconds) for _, request in items]
            ),
        )

    async def _one(self, items: Sequence[Item]) -> Sequence[Outcome]:
        [(session, request)] = items
        return [await self._by_kind_single[type(request)](session, request)]

    async def _bye(self, session: Session, request: wire.Bye) -> Outcome:
        await self._store.release_sessions([(session.client, session.token)])
        return wire.Done(request.id)

    async def _browse(self, session: Session, request: wire.Browse) -> Outcome:
        page = await self._store.browse(request.queue, viewer=session.client, after=request.after, limit=request.limit)
        return wire.Messages(request.id, page)

    async def _create_queue(self, session: Session, request: wire.CreateQueue) -> Outcome:
        queue = await self._store.create_queue(
            session.client,
            request.queue,
            exclude_own=request.exclude_own,
            exist_ok=request.exist_ok,
            max_body=request.max_body,
            max_deliveries=request.max_deliveries,
            dead_letter=request.dead_letter,
        )
        return wire.Queues(request.id, [queue])

    async def _delete_queue(self, session: Session, request: wire.DeleteQueue) -> Outcome:
        await self._store.delete_queue(session.client, request.queue, force=request.force)
        return wire.Done(request.id)

    async def _look_up_queue(self, _session: Session, request: wire.LookUpQueue) -> Outcome:
        return wire.Queues(request.id, [await self._store.queue(request.queue)])

    async def _list_queues(self, _session: Session, request: wire.ListQueues) -> Outcome:
        return wire.Queues(request.id, await self._store.queues())

    async def _waiting_queues(self, session: Session, request: wire.WaitingQueues) -> Outcome:
        return wire.Queues(request.id, await self._store.waiting_queues(session.client, limit=request.limit))

    async def _look_up_personal_queue(self, _session: Session, request: wire.LookUpPersonalQueue) -> Outcome:
        return wire.Queues(request.id, [await self._store.personal_queue(request.client)])

    async def _purge(self, session: Session, request: wire.Purge) -> Outcome:
        return wire.Counted(request.id, await self._store.purge(session.client, request.queue))

    async def _look_up_client(self, _session: Session, request: wire.LookUpClient) -> Outcome:
        return wire.Clients(request.id, [await self._store.client(request.client)])

    async def _list_clients(self, _session: Session, request: wire.ListClients) -> Outcome:
        return wire.Clients(request.id, await self._store.clients())

    async def _delete_client(self, session: Session, request: wire.DeleteClient) -> Outcome:
        if request.client == session.name:
            await self._store.release_sessions([(session.client, session.token)])
        await self._store.delete_client(request.client, by=session.client)
        return wire.Done(request.id)


def _ask(session: Session, request: Any) -> Ask:
    wanted = request.selection
    return Ask(session.client, wanted.queue, wanted.sender, wanted.context, wanted.order, wanted.count)


def _messages(items: Sequence[Item], answers: Sequence[Any]) -> list[Outcome]:
    return [
        answer if isinstance(answer, StafetteError) else wire.Messages(request.id, answer)
        for (_, request), answer in zip(items, answers, strict=True)
    ]


def _done(items: Sequence[Item], answers: Sequence[StafetteError | None]) -> list[Outcome]:
    return [answer or wire.Done(request.id) for (_, request), answer in zip(items, answers, strict=True)]
