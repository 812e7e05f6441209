"""Commands for a running broker (or web process), over a Unix socket that only its own user can open.

One connection is one command: a line in, a line of JSON out, ``{"ok": …}`` or ``{"error": message}``. A separate thread
answers, so that a broker whose event loop is stuck can still show where. ::

    DATA/run/broker-PID.sock               one per broker process
    DATA/run/web-PID.sock                  one per web process
    /tmp/stafette-UID/HASH.run/…           instead, if DATA is too long for a socket path
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from stafette.database.embedded.cluster import make_data_folder
from stafette.database.embedded.server_user import ServerUser
from stafette.database.embedded.socket_folders import digest, make_socket_root, socket_root
from stafette.errors import InternalError, InvalidRequest, RequestTimeout, Unavailable
from stafette.files import trusted_owners

log = logging.getLogger(__name__)

MAX_SOCKET_PATH = 103
"""Bytes in the path of a Unix socket, on the systems with the lowest limit."""

LINE_BYTES = 1024
COMMAND_SECONDS = 5.0
"""How long a command may take to arrive, and how long the event loop may take to answer it."""

Command = Callable[[], object]


def folder_of(data: Path) -> Path:
    """The folder with the sockets of the brokers that use this data folder."""
    folder = data.resolve() / "run"
    if len(os.fsencode(_socket(folder, 2**32))) <= MAX_SOCKET_PATH:
        return folder
    return socket_root(data.resolve(), _owner(data)) / f"{digest(data.resolve())}.run"


def _owner(data: Path) -> ServerUser:
    """The user of the sockets: ourselves or, for root, the user of the data folder's server."""
    return ServerUser.of(data.resolve() / "postgres")


def _socket(folder: Path, pid: int, kind: str = "broker") -> Path:
    return folder / f"{kind}-{pid}.sock"


class Control:
    """The broker's end: answers commands until the process ends."""

    def __init__(self, *, on_loop: Mapping[str, Command], anywhere: Mapping[str, Command], stop: Command) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_loop = on_loop
        self._anywhere = anywhere
        self._stop = stop
        self._shutdown_connections: list[socket.socket] = []

    @contextlib.contextmanager
    def serving(self, data: Path, kind: str = "broker") -> Iterator[None]:
        """Answer commands. If the socket cannot be opened, the process serves without it."""
        try:
            path = _socket(_make_folder(data), os.getpid(), kind)
            path.unlink(missing_ok=True)  # left by a killed process that had the same id
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
            connection.settimeout(COMMAND_SECONDS)
            command = ""
            with contextlib.suppress(OSError):  # the caller has gone, or sends nothing
                command = connection.makefile("rb").readline(LINE_BYTES).decode(errors="replace").strip()
                connection.sendall(msgspec.json.encode(self._answer(command)) + b"\n")
            if command == "shutdown":
                # The kernel closes the connection when the process has ended; the operator waits for that.
                self._shutdown_connections.append(connection)
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
                return {"ok": answer.result(timeout=COMMAND_SECONDS)}
        except TimeoutError:
            return {"error": "the event loop is stuck; `stafette broker ctl stacks` shows where"}
        except Exception as error:
            log.exception("the command %s failed", command)
            return {"error": f"the command failed: {error}"}
        commands = ", ".join(sorted({"shutdown", *self._anywhere, *self._on_loop}))
        return {"error": f"there is no command {command!r}; the commands are {commands}"}


async def _call(command: Command) -> object:
    return command()


def _make_folder(data: Path) -> Path:
    user = _owner(data)
    make_data_folder(data, user)
    folder = folder_of(data)
    if folder.parent != data.resolve():
        folder = make_socket_root(data.resolve(), user) / folder.name
    user.make_private(folder)
    return folder


# The operator's end


def ask_all(data: Path, command: str, kind: str = "broker") -> list[object]:
    """Send a command to all brokers with this data folder at once; returns the answer or error of each."""
    folder = folder_of(data)
    _require_trusted(folder, data)
    paths = sorted(folder.glob(f"{kind}-*.sock"))
    with ThreadPoolExecutor(max_workers=max(len(paths), 1)) as executor:
        answers = [answer for answer in executor.map(lambda path: _ask(path, command), paths) if answer is not None]
    if not answers:
        raise Unavailable(f"no {kind} with the data folder {data} is running here; give its folder with --data")
    return answers


def _require_trusted(folder: Path, data: Path) -> None:
    """Refuse to ask where somebody else could answer: whatever they said would be believed."""
    try:
        status = folder.lstat()
    except OSError:
        return  # nothing will be found there
    if status.st_uid not in (*trusted_owners(), _owner(data).uid) or not stat.S_ISDIR(status.st_mode):
        raise InvalidRequest(f"{folder} belongs to another user; give the command as that user, or remove it")


def _ask(path: Path, command: str) -> object:
    """The answer; None if the broker has ended and left its socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(str(path))
            connection.settimeout(None if command == "shutdown" else 3 * COMMAND_SECONDS)
            connection.sendall(command.encode() + b"\n")
            payload = b"".join(iter(lambda: connection.recv(LINE_BYTES), b""))
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        except PermissionError:
            return InvalidRequest(f"{path} belongs to another user; give the command as that user")
        except TimeoutError:
            return RequestTimeout(f"the process behind {path} does not answer")
        except ConnectionError as error:
            return Unavailable(f"the process behind {path} went away: {error}")
    answer = msgspec.json.decode(payload, type=dict[str, object]) if payload else {"error": f"{path} gave no answer"}
    return answer["ok"] if "ok" in answer else InternalError(str(answer["error"]))
