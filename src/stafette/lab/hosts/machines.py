"""The machines of a series, and how the runner gets to them: this one through pipes, others through SSH.

On another machine the runner needs a shell, a Python with our libraries, and a folder; our own code it brings along, so
that all machines run the same. ::

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
GOODBYE_SECONDS = 30.0
"""How long an agent may take to end everything."""

LIBRARIES = "import asyncpg, asyncssh, msgspec, numpy, psutil, pyarrow, pydantic, scipy, typer, uvloop"


@dataclass(frozen=True)
class Hosts:
    """Who runs where."""

    database: Host
    brokers: list[Host]
    clients: list[Host]

    @property
    def all(self) -> list[Host]:
        """Every machine once."""
        return list(dict.fromkeys([self.database, *self.brokers, *self.clients]))


@asynccontextmanager
async def reached(
    names: HostNames | None, folder: Path, behaviours: Sequence[str] = (), *, lock: int
) -> AsyncIterator[Hosts]:
    """Reach all machines of the series in a folder; at the end everything on them is ended.

    The experiment's own behaviours, files in that folder, are brought along. The lock is held until all has ended here,
    even if we do not live to see it.
    """
    async with AsyncExitStack() as stack:
        known: dict[str, Host] = {}

        async def reach(name: str) -> Host:
            if name not in known:
                machine = (names.machines if names else {}).get(name) or Machine()
                found = _here(folder, lock) if name == LOCAL else _elsewhere(name, machine, folder, behaviours)
                known[name] = await stack.enter_async_context(found)
            return known[name]

        if names is None:
            here = await reach(LOCAL)
            yield Hosts(here, [here], [here])
        else:
            yield Hosts(
                await reach(names.database),
                [await reach(name) for name in names.brokers],
                [await reach(name) for name in names.clients],
            )


@asynccontextmanager
async def _here(folder: Path, lock: int) -> AsyncIterator[Host]:
    system = folder / "system"
    system.mkdir(exist_ok=True)
    errors = os.open(system / "agent.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "stafette.lab.hosts.agent",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=errors,
        pass_fds=(lock,),
        cwd=system,  # where no stafette.toml is
        env={name: value for name, value in os.environ.items() if not name.startswith("STAFETTE_")},
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
            async with asyncio.timeout(GOODBYE_SECONDS):
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
async def _elsewhere(name: str, machine: Machine, series: Path, behaviours: Sequence[str]) -> AsyncIterator[Host]:
    import asyncssh  # which most runs do without

    user, _, place = name.rpartition("@")
    address, _, port = place.partition(":")
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
        code = await _ship(connection, name, python, folder)
        await _bring(connection, series, behaviours, folder / series.name)
        command = ["env", f"PYTHONPATH={code}", python]
        log = shlex.quote(str(folder / "agent.log"))
        process = await connection.create_process(
            f"{shlex.join([*command, '-m', 'stafette.lab.hosts.agent'])} 2>>{log}", encoding=None
        )

        async def hang_up() -> None:
            process.stdin.write_eof()
            with contextlib.suppress(TimeoutError):
                await process.wait(timeout=GOODBYE_SECONDS)

        async def collect(what: PurePath, into: Path) -> None:
            async with connection.start_sftp_client() as files:
                if await files.exists(str(what)):
                    await files.get(str(what), into.parent, recurse=True)
                    await files.rmtree(str(what))

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
            with contextlib.suppress(asyncssh.Error, OSError):  # the connection may be what ended us
                async with connection.start_sftp_client() as files:
                    await files.rmtree(str(folder / series.name))


async def _remote_folder(connection: asyncssh.SSHClientConnection, machine: Machine) -> PurePosixPath:
    async with connection.start_sftp_client() as files:
        home = PurePosixPath(str(await files.realpath(".")))
        folder = home / (machine.folder or REMOTE_FOLDER)
        await files.makedirs(str(folder), exist_ok=True)
        return folder


async def _ship(
    connection: asyncssh.SSHClientConnection, name: str, python: str, folder: PurePosixPath
) -> PurePosixPath:
    """Bring our code there, once for each version of it; the folder to import it from."""
    packed = _package()
    code = folder / f"code-{hashlib.sha256(packed).hexdigest()[:12]}"
    async with connection.start_sftp_client() as files:
        if not await files.exists(str(code)):
            archive, unfinished = f"{code}.zip", f"{code}.new"
            async with files.open(archive, "wb") as file:
                await file.write(packed)
            await _run(connection, name, [python, "-m", "zipfile", "-e", archive, unfinished])
            await files.rename(unfinished, str(code))
            await files.remove(archive)
    await _run(connection, name, [python, "-c", LIBRARIES])
    return code


async def _bring(
    connection: asyncssh.SSHClientConnection, series: Path, behaviours: Sequence[str], folder: PurePosixPath
) -> None:
    async with connection.start_sftp_client() as files:
        await files.makedirs(str(folder), exist_ok=True)
        for own in behaviours:
            await files.makedirs(str((folder / own).parent), exist_ok=True)
            await files.put(str(series / own), str(folder / own))


async def _run(connection: asyncssh.SSHClientConnection, name: str, command: list[str]) -> None:
    ended = await connection.run(shlex.join(command))
    if ended.exit_status != 0:
        said = str(ended.stderr or ended.stdout).strip().rpartition("\n")[2]
        raise InvalidRequest(
            f"{name}: {command[0]} cannot run our code: {said}; install stafette[lab] there,"
            " or name a Python that has it with `python` in the experiment's [hosts.machines]"
        )


@functools.cache
def _package() -> bytes:
    """Our own package, the same bytes for the same code."""
    root = Path(stafette.__file__).parent
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(root.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                entry = zipfile.ZipInfo(str(Path("stafette") / path.relative_to(root)))
                archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
    return packed.getvalue()
