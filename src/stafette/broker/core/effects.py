"""Effects: what the core wants done; and the interface of a listener's connection.

A listener turns bytes into the requests of `protocol.messages` and hands them to the core. Its connections carry out
the effects. The native protocol is the first listener; nothing in the core depends on its frames.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

import msgspec

from stafette.protocol.messages import Answer, Request

if TYPE_CHECKING:
    from stafette.broker.core.hellos import PendingHello
    from stafette.broker.core.session import Session, Ticket


class Connection(Protocol):
    """One connection of a listener, as the core and the runtime see it."""

    @property
    def unsent(self) -> int:
        """Bytes that the client has yet to read."""

    def open(self) -> None:
        """The client is authenticated: allow what a session may send."""

    def reply(self, request: Request | None, answer: Answer) -> None:
        """Send an answer; without a request it is about the stream itself."""

    def say_goodbye(self, reason: str) -> None:
        """Ask the client to send nothing more and to hang up."""

    def pause_reading(self) -> None:
        """Take no more bytes from the client."""

    def resume_reading(self) -> None:
        """Take bytes from the client again."""

    def close(self) -> None:
        """Hang up after what is written has been sent."""

    def abort(self) -> None:
        """Hang up at once."""


class Reply(msgspec.Struct, gc=False):
    """Answer a request."""

    session: Session
    request: Request | None
    answer: Answer


class SayGoodbye(msgspec.Struct, gc=False):
    """Ask a client to leave."""

    session: Session
    reason: str


class Open(msgspec.Struct, gc=False):
    """Allow a client what a session may send."""

    session: Session


class PauseReading(msgspec.Struct, gc=False):
    """Take no more bytes from a client."""

    session: Session


class ResumeReading(msgspec.Struct, gc=False):
    """Take bytes from a client again."""

    session: Session


class Close(msgspec.Struct, gc=False):
    """Hang up after the last answer."""

    session: Session


class Abort(msgspec.Struct, gc=False):
    """Hang up at once."""

    session: Session


class OpenSessions(msgspec.Struct, gc=False):
    """Find out who says hello, and open or continue their sessions."""

    hellos: list[PendingHello]


class CheckSecret(msgspec.Struct, gc=False):
    """Compare the secret of a hello with a stored hash; without one, hash it."""

    pending: PendingHello
    stored: str | None


class ReleaseName(msgspec.Struct, gc=False):
    """Take a client offline in the database."""

    client: int
    token: int


class Proceed(msgspec.Struct, gc=False):
    """Continue with a session's requests after the replies before are written: its client may have stopped reading."""

    session: Session


class Woken(msgspec.Struct, gc=False):
    """A read stops waiting: its trace notes when."""

    ticket: Ticket


Effect: TypeAlias = (
    Reply
    | Proceed
    | SayGoodbye
    | Open
    | PauseReading
    | ResumeReading
    | Close
    | Abort
    | OpenSessions
    | CheckSecret
    | ReleaseName
    | Woken
)
