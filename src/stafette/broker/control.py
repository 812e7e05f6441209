"""Commands for a running broker (or web process), over a Unix socket that only its own user can open.

One connection is one command: a line in, a line of JSON out, ``{"ok": …}`` or ``{"error": sentence}``. A thread of its
own answers, so that a broker whose event loop is stuck can still show where. ::

    DATA/run/broker-PID.sock               one per broker process
    DATA/run/web-PID.sock                  one per web process
    /tmp/stafette-UID/HASH.run/…           instead, where DATA is too long for a socket's address
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from stafette.database.embedded import SOCKETS
from stafette.database.embedded.server_user import ServerUser
from stafette.errors import InternalError, InvalidRequest, RequestTimeout, Unavailable

log = logging.getLogger(__name__)

LONGEST_ADDRESS = 103
"""Bytes in the address of a Unix socket, on the systems that allow the least."""

LINE_BYTES = 1024
TALK_SECONDS = 5.0
"""How long a command may take to arrive, and how long the event loop may take for its part of the answer."""

Command = Callable[[], object]


def folder_of(data: Path) -> Path:
    """Where the sockets of the brokers with this data folder are."""
    folder = data.resolve() / "run"
    if len(os.fsencode(_socket(folder, 2**32))) <= LONGEST_ADDRESS:
        return folder
    digest = hashlib.sha256(os.fsencode(data.resolve())).hexdigest()[:8]
    return SOCKETS / f"stafette-{os.geteuid()}" / f"{digest}.run"


def _socket(folder: Path, pid: int, kind: str = "broker") -> Path:
    return folder / f"{kind}-{pid}.sock"


class Control:
    """The broker's end: answers commands until the process ends."""

    def __init__(self, *, on_loop: Mapping[str, Command], anywhere: Mapping[str, Command], stop: Command) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_loop = on_loop
        self._anywhere = anywhere
        self._stop = stop
        self._waiting_for_the_end: list[socket.socket] = []

    @contextlib.contextmanager
    def serving(self, data: Path, kind: str = "broker") -> Iterator[None]:
        """Answer commands. A process that cannot offer this serves all the same."""
        try:
            path = _socket(_make_folder(data), os.getpid(), kind)
            path.unlink(missing_ok=True)  # of a process that had the same id and was killed
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            listener.bind(str(path))
            path.chmod(0o600)
            listener.listen()
        except (OSError, InvalidRequest) as error:
            log.warning("`stafette status` and `down` will not find this %s: %s", kind, error)
            yield
            return
        threading.Thread(target=self._serve, args=(listener,), name="control", daemon=True).start()
        try:
            yield
        finally:
            path.unlink(missing_ok=True)

    def _serve(self, listener: socket.socket) -> None:
        while True:
            connection, _ = listener.accept()
            connection.settimeout(TALK_SECONDS)
            command = ""
            with contextlib.suppress(OSError):  # whoever asked has gone, or says nothing
                command = connection.makefile("rb").readline(LINE_BYTES).decode(errors="replace").strip()
                connection.sendall(msgspec.json.encode(self._answer(command)) + b"\n")
            if command == "shutdown":
                # The kernel hangs up when the process has ended, which is what the operator waits for.
                self._waiting_for_the_end.append(connection)
                with contextlib.suppress(RuntimeError):  # its loop has ended already
                    self._loop.call_soon_threadsafe(self._stop)
            else:
                connection.close()

    def _answer(self, command: str) -> dict[str, object]:
        try:
            if command == "shutdown":
                return {"ok": "draining"}
            if command in self._anywhere:
                return {"ok": self._anywhere[command]()}
            if command in self._on_loop:
                answer = asyncio.run_coroutine_threadsafe(_call(self._on_loop[command]), self._loop)
                return {"ok": answer.result(timeout=TALK_SECONDS)}
        except TimeoutError:
            return {"error": "the event loop is stuck; `stafette broker ctl stacks` shows where"}
        except Exception as error:
            log.exception("the command %s failed", command)
            return {"error": f"the command failed: {error}"}
        known = ", ".join(sorted({"shutdown", *self._anywhere, *self._on_loop}))
        return {"error": f"there is no command {command!r}; known are {known}"}


async def _call(command: Command) -> object:
    return command()


def _make_folder(data: Path) -> Path:
    folder, user = folder_of(data), ServerUser(os.geteuid(), os.getegid())
    data.mkdir(mode=0o711, parents=True, exist_ok=True)
    if folder.parent != data.resolve():
        user.make_private(folder.parent)
    user.make_private(folder)
    return folder


# The operator's end


def ask_all(data: Path, command: str, kind: str = "broker") -> list[object]:
    """Give a command to every broker with this data folder, all at once; returns the answer, or error, of each."""
    paths = sorted(folder_of(data).glob(f"{kind}-*.sock"))
    with ThreadPoolExecutor(max_workers=max(len(paths), 1)) as talks:
        answers = [answer for answer in talks.map(lambda path: _ask(path, command), paths) if answer is not None]
    if not answers:
        raise Unavailable(f"no {kind} with the data folder {data} runs here; name its folder with --data")
    return answers


def _ask(path: Path, command: str) -> object:
    """The answer; None when the socket is all that is left of a broker."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(str(path))
            connection.settimeout(None if command == "shutdown" else 3 * TALK_SECONDS)
            connection.sendall(command.encode() + b"\n")
            said = b"".join(iter(lambda: connection.recv(LINE_BYTES), b""))
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        except PermissionError:
            return InvalidRequest(f"{path} belongs to another user; give the command as that user")
        except TimeoutError:
            return RequestTimeout(f"the process behind {path} does not answer")
        except ConnectionError as error:
            return Unavailable(f"the process behind {path} went away: {error}")
    answer = msgspec.json.decode(said, type=dict[str, object]) if said else {"error": f"{path} says nothing"}
    return answer["ok"] if "ok" in answer else InternalError(str(answer["error"]))
