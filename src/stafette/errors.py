"""Every error Stafette reports, as one tree.

Each class has a wire code. The database raises the same code as SQLSTATE ``ST`` + code, so this file is the only place
where a number becomes a class. The hundreds digit is the group, and the group says who has to act::

    StafetteError
    ├── CallerError                     1xx  the caller's fault: do not repeat it unchanged
    │   ├── InvalidRequest              100
    │   ├── MessageTooLarge             101
    │   ├── QueueNotFound               102
    │   ├── QueueExists                 103
    │   ├── QueueNotEmpty               104
    │   ├── ClientNotFound              105
    │   ├── AlreadyOnline               106
    │   ├── PermissionDenied            107
    │   ├── NotAuthenticated            108
    │   ├── LeaseLost                   109
    │   └── KeyConflict                 110
    ├── TryAgain                        2xx  nobody's fault: the same request may succeed later
    │   ├── ServerFull                  200
    │   ├── Overloaded                  201
    │   ├── Unavailable                 202
    │   └── RequestTimeout              203
    └── InternalError                   300  ours: a defect or a broken installation

What became of the request is an attribute of the error, `outcome`. A request that the caller is at fault for, or that
was refused, was not done; of the others only who raises the error can know, and says so where it is known.
"""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

RequestOutcome: TypeAlias = Literal["done", "not done", "unknown"]
"""What became of a request that failed."""

SQLSTATE_CLASS = "ST"


class StafetteError(Exception):
    """What went wrong, as one sentence that says what to do.

    Its text is for whoever runs the system. Where it names what clients need not know, such as the database's address,
    they get the keyword `sentence` instead.
    """

    code: ClassVar[int] = 0
    outcome: RequestOutcome = "unknown"
    _sentence: str | None = None

    def __init__(self, *arguments: object, outcome: RequestOutcome | None = None, sentence: str | None = None) -> None:
        super().__init__(*arguments)
        self._sentence = sentence
        if outcome is not None:
            self.outcome = outcome

    @property
    def sentence(self) -> str:
        """The text that clients may read."""
        return self._sentence or str(self)

    @property
    def confidential(self) -> bool:
        """Whether its text says more than clients may read."""
        return self._sentence is not None


class CallerError(StafetteError):
    """The caller's fault: repeating the request unchanged fails again."""

    outcome: RequestOutcome = "not done"


class InvalidRequest(CallerError):
    """A value is missing, out of range or does not fit the others."""

    code = 100


class NotFound(InvalidRequest):
    """What the request names does not exist. On the wire queues and clients have errors of their own."""


class MessageTooLarge(CallerError):
    """The body is larger than its queue, or the server, allows."""

    code = 101


class QueueNotFound(CallerError):
    """No queue has this name or id."""

    code = 102


class QueueExists(CallerError):
    """A queue with this name already exists."""

    code = 103


class QueueNotEmpty(CallerError):
    """The queue still holds messages."""

    code = 104


class ClientNotFound(CallerError):
    """No client has registered under this name."""

    code = 105


class AlreadyOnline(CallerError):
    """The name has a live session."""

    code = 106


class PermissionDenied(CallerError):
    """The client may not do this: it is read-only, or the queue is another's."""

    code = 107


class NotAuthenticated(CallerError):
    """The secret is missing or wrong, or the session has not said hello."""

    code = 108


class LeaseLost(CallerError):
    """The lease ran out or was given up; another client may hold the message."""

    code = 109


class KeyConflict(CallerError):
    """The idempotency key was used before, for another message."""

    code = 110


class TryAgain(StafetteError):
    """Nobody's fault: the same request may succeed later."""


class ServerFull(TryAgain):
    """The broker is at its limit of clients."""

    code = 200
    outcome: RequestOutcome = "not done"


class Overloaded(TryAgain):
    """Too many requests are in flight."""

    code = 201
    outcome: RequestOutcome = "not done"


class Unavailable(TryAgain):
    """The broker or its database cannot be reached."""

    code = 202


class RequestTimeout(TryAgain):
    """No answer came in time. `outcome` says whether the request has taken effect, if that is known."""

    code = 203


class InternalError(StafetteError):
    """A defect of ours, or a broken installation."""

    code = 300


def _coded(base: type[StafetteError]) -> list[type[StafetteError]]:
    """The errors that have a code of their own."""
    return [kind for child in base.__subclasses__() for kind in ([child] if "code" in vars(child) else _coded(child))]


BY_CODE: dict[int, type[StafetteError]] = {kind.code: kind for kind in _coded(StafetteError)}


def from_code(code: int, detail: str) -> StafetteError:
    """The error for a wire code; an unknown code is an internal error."""
    return BY_CODE.get(code, InternalError)(detail)


def from_sqlstate(sqlstate: str, detail: str) -> StafetteError | None:
    """The error for one of our SQLSTATEs; None if it is not ours."""
    if not sqlstate.startswith(SQLSTATE_CLASS):
        return None
    return from_code(int(sqlstate.removeprefix(SQLSTATE_CLASS)), detail)
