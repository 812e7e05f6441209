"""Authentication: which clients say hello, whether their secrets are right, and their sessions in the database.

The core decides which hellos go together, when a secret is checked, and whether there is room.
"""

from __future__ import annotations

from collections.abc import Sequence

from stafette.broker import secrets
from stafette.broker.core.hellos import HelloOutcome, Opened, PendingHello, SecretDue
from stafette.database.clients import RESERVED_NAMES, Claim, Identity, Registration
from stafette.database.store import Store
from stafette.errors import InternalError, NotAuthenticated, StafetteError
from stafette.model import Mode

Moved = tuple[int, int, int]
"""A session that has left a live broker: that broker, the client, and the token there."""

_UNDECIDED = InternalError("the session was neither opened nor refused")


async def open_sessions(
    hellos: Sequence[PendingHello], store: Store, broker_id: int
) -> tuple[list[HelloOutcome], list[Moved]]:
    """Register new clients, and open or continue the sessions of those whose secret needs no check (any more)."""
    outcomes: list[HelloOutcome] = []
    entitled: list[tuple[int, Identity]] = []
    identities = await store.clients.register_batch([_registration(pending) for pending in hellos])
    for number, (pending, identity) in enumerate(zip(hellos, identities, strict=True)):
        verdict = identity if isinstance(identity, StafetteError) else judge(pending, identity)
        if isinstance(verdict, Identity):
            entitled.append((number, verdict))
            outcomes.append(_UNDECIDED)
        else:
            outcomes.append(verdict)
    if not entitled:
        return outcomes, []
    moved: list[Moved] = []
    answers = await store.clients.take_sessions(
        [Claim(identity.id, hellos[number].secret, hellos[number].hello.session) for number, identity in entitled],
        broker_id,
    )
    for (number, identity), answer in zip(entitled, answers, strict=True):
        if isinstance(answer, StafetteError):
            outcomes[number] = answer
            continue
        mode: Mode = "full" if identity.mode == "full" else "read-only"
        outcomes[number] = Opened(identity.id, identity.name, mode, answer.token)
        if answer.left_broker is not None and answer.left_token is not None:
            moved.append((answer.left_broker, identity.id, answer.left_token))
    return outcomes, moved


def _registration(pending: PendingHello) -> Registration:
    hello = pending.hello
    hashed = not hello.secret or pending.secret is not None
    return Registration(hello.name, hello.mode, pending.secret, registers=hashed, session=hello.session)


def judge(pending: PendingHello, identity: Identity | None) -> Identity | SecretDue | StafetteError:
    """Whether a client is who it says it is; without an identity its name is new."""
    hello = pending.hello
    if identity is None:
        return SecretDue(None)
    if identity.proved or (identity.secret == pending.secret and (identity.secret or not hello.secret)):
        return identity
    if identity.secret is None:
        return NotAuthenticated(f"client {hello.name} has no secret; connect without one")
    return SecretDue(identity.secret) if hello.secret else wrong_secret(hello.name)


def check_secret(secret: str, stored: str | None) -> str | None:
    """The hash with which a secret agrees: a new one, or the stored one; None: it does not. Slow by design."""
    if stored is None:
        return secrets.hash_secret(secret)
    return stored if secrets.matches(secret, stored) else None


def wrong_secret(name: str) -> NotAuthenticated:
    """The secret is not that of the client."""
    if name in RESERVED_NAMES:
        return NotAuthenticated(f"the name {name} is the web console's; choose another")
    return NotAuthenticated(f"client {name} has another secret; connect with that")
