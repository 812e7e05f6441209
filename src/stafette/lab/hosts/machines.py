"""The machines of a series, and how the runner connects to them: this one through pipes, others through SSH.

Another machine needs a shell, a Python with our libraries, and a folder. The runner copies our own code there, so that
all machines run the same. ::

    FOLDER/code-HASH/stafette/…    the package
    FOLDER/SERIES/…                traces and logs until they are collected; the database
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import io
import os
import shlex
import sys
import zipfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath
from typing import TYPE_CHECKING

import stafette
from stafette.errors import InvalidRequest, Unavailable
from stafette.lab.child_environment import environment
from stafette.lab.experiment.experiment_file import Hosts as HostNames
from stafette.lab.experiment.experiment_file import Machine
from stafette.lab.hosts.agent import LINE_BYTES
from stafette.lab.hosts.host import Host

if TYPE_CHECKING:
    import asyncssh

LOCAL = "local"
LOOPBACK = "127.0.0.1"
REMOTE_FOLDER = ".cache/stafette-lab"
CONNECT_SECONDS = 20.0
STOP_SECONDS = 30.0
"""How long an agent may take to end its processes."""

LIBRARIES = "import asyncpg, asyncssh, msgspec, numpy, psutil, pyarrow, pydantic, scipy, typer, uvloop"


@dataclass(frozen=True)
class Hosts:
    """The machines, by what they run."""

    database: Host
    brokers: list[Host]
    clients: list[Host]

    @property
    def all(self) -> list[Host]:
        """Every machine once."""
        return list(dict.fromkeys([self.database, *self.brokers, *self.clients]))


@asynccontextmanager
async def connect_hosts(
    names: HostNames | None, folder: Path, behaviours: Sequence[str] = (), *, lock: int
) -> AsyncIterator[Hosts]:
    """Connect to all machines of the series in a folder; at the end all its processes there are ended.

    The experiment's own behaviours, files in that folder, are copied there. The local agent holds the lock until all
    has ended, even if we are killed.
    """
    async with AsyncExitStack() as stack:
        hosts: dict[str, Host] = {}

        async def connect(name: str) -> Host:
            if name not in hosts:
                machine = (names.machines if names else {}).get(name) or Machine()
                host = _local_host(folder, lock) if name == LOCAL else _remote_host(name, machine, folder, behaviours)
                hosts[name] = await stack.enter_async_context(host)
            return hosts[name]

        if names is None:
            local = await connect(LOCAL)
            yield Hosts(local, [local], [local])
        else:
            yield Hosts(
                await connect(names.database),
                [await connect(name) for name in names.brokers],
                [await connect(name) for name in names.clients],
            )


@asynccontextmanager
async def _local_host(folder: Path, lock: int) -> AsyncIterator[Host]:
    system = folder / "system"
    system.mkdir(exist_ok=True)
    errors = os.open(system / "agent.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "stafette.lab.hosts.agent",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=errors,
        pass_fds=(lock,),
        cwd=system,  # has no stafette.toml
        env=environment(),
        start_new_session=True,  # a Ctrl-C is for the runner
        limit=LINE_BYTES,
    )
    os.close(errors)
    assert process.stdin is not None
    assert process.stdout is not None
    writer = process.stdin

    async def hang_up() -> None:
        writer.close()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    host = Host(
        LOCAL,
        address=LOOPBACK,
        folder=system,
        behaviours=folder,
        python=[sys.executable],
        reader=process.stdout,
        writer=writer,
        hang_up=hang_up,
    )
    try:
        yield host
    finally:
        await host.close()


@asynccontextmanager
async def _remote_host(name: str, machine: Machine, series: Path, behaviours: Sequence[str]) -> AsyncIterator[Host]:
    import asyncssh  # most runs do not need it

    user, _, location = name.rpartition("@")
    address, _, port = location.partition(":")
    try:
        connection = await asyncssh.connect(
            machine.address or address,
            machine.port or int(port or 22),
            username=machine.user or user or (),
            client_keys=[machine.key] if machine.key else (),
            known_hosts=machine.known_hosts or (),
            connect_timeout=CONNECT_SECONDS,
        )
    except (OSError, asyncssh.Error) as error:
        raise Unavailable(
            f"cannot reach {name} over SSH: {error}; check that `ssh {name}` works without a password"
        ) from error
    async with connection:
        python = machine.python or "python3"
        folder = await _remote_folder(connection, machine)
        code = await _copy_code(connection, name, python, folder)
        await _copy_behaviours(connection, series, behaviours, folder / series.name)
        command = ["env", f"PYTHONPATH={code}", python]
        log = shlex.quote(str(folder / "agent.log"))
        process = await connection.create_process(
            f"umask 077; {shlex.join([*command, '-m', 'stafette.lab.hosts.agent'])} 2>>{log}", encoding=None
        )

        async def hang_up() -> None:
            process.stdin.write_eof()
            with contextlib.suppress(TimeoutError):
                await process.wait(timeout=STOP_SECONDS)

        async def collect(folder: PurePath, into: Path) -> None:
            async with connection.start_sftp_client() as files:
                if await files.exists(str(folder)):
                    await files.get(str(folder), into.parent, recurse=True)
                    await files.rmtree(str(folder))

        host = Host(
            name,
            address=machine.address or address,
            folder=folder / series.name,
            behaviours=folder / series.name,
            python=command,
            reader=process.stdout,
            writer=process.stdin,
            hang_up=hang_up,
            collect=collect,
        )
        try:
            yield host
        finally:
            await host.close()
            with contextlib.suppress(asyncssh.Error, OSError):  # the connection may be lost
                async with connection.start_sftp_client() as files:
                    await files.rmtree(str(folder / series.name))


async def _remote_folder(connection: asyncssh.SSHClientConnection, machine: Machine) -> PurePosixPath:
    async with connection.start_sftp_client() as files:
        home = PurePosixPath(str(await files.realpath(".")))
        folder = home / (machine.folder or REMOTE_FOLDER)
        await files.makedirs(str(folder), exist_ok=True)
        return folder


async def _copy_code(
    connection: asyncssh.SSHClientConnection, name: str, python: str, folder: PurePosixPath
) -> PurePosixPath:
    """Copy our code there, once for each version of it; returns the folder to import it from."""
    package = _package()
    code = folder / f"code-{hashlib.sha256(package).hexdigest()[:12]}"
    async with connection.start_sftp_client() as files:
        if not await files.exists(str(code)):
            archive, unfinished = f"{code}.zip", f"{code}.new"
            async with files.open(archive, "wb") as file:
                await file.write(package)
            await _run(connection, name, [python, "-m", "zipfile", "-e", archive, unfinished])
            await files.rename(unfinished, str(code))
            await files.remove(archive)
    await _run(connection, name, [python, "-c", LIBRARIES])
    return code


async def _copy_behaviours(
    connection: asyncssh.SSHClientConnection, series: Path, behaviours: Sequence[str], folder: PurePosixPath
) -> None:
    async with connection.start_sftp_client() as files:
        await files.makedirs(str(folder), exist_ok=True)
        await files.chmod(str(folder), 0o700)
        for file in behaviours:
            await files.makedirs(str((folder / file).parent), exist_ok=True)
            await files.put(str(series / file), str(folder / file))


async def _run(connection: asyncssh.SSHClientConnection, name: str, command: list[str]) -> None:
    result = await connection.run(shlex.join(command))
    if result.exit_status != 0:
        reason = str(result.stderr or result.stdout).strip().rpartition("\n")[2]
        raise InvalidRequest(
            f"{name}: {command[0]} cannot run Stafette's code: {reason}; install stafette[lab] there,"
            " or name a Python that has it with `python` in the experiment's [hosts.machines]"
        )


@functools.cache
def _package() -> bytes:
    """A zip of our own package; the same code gives the same bytes."""
    root = Path(stafette.__file__).parent
    package = io.BytesIO()
    with zipfile.ZipFile(package, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(root.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                entry = zipfile.ZipInfo(str(Path("stafette") / path.relative_to(root)))
                archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
    return package.getvalue()
