"""Simulates several machines on one: SSH servers on loopback addresses, each with its own folder.

`python -m bench.machines FOLDER 127.0.0.11 127.0.0.12` writes a key and the servers' known_hosts into FOLDER, prints a
line of JSON with the ports, and serves until its input ends. Such machines are connected by real sockets.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncssh


async def _run(process: asyncssh.SSHServerProcess[bytes]) -> None:
    """Run the command of the client in a shell, as sshd does; its input ends when the connection does."""
    assert process.command is not None
    child = await asyncio.create_subprocess_shell(
        process.command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert child.stdin is not None
    await process.redirect(stdin=child.stdin, stdout=child.stdout, stderr=child.stderr)
    try:
        process.exit(await child.wait())
    finally:
        child.stdin.close()
        await child.wait()
        await process.wait_closed()


async def _serve(folder: Path, addresses: list[str]) -> None:
    host_key, user_key = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
    user_key.write_private_key(folder / "key")
    (folder / "key").chmod(0o600)
    user_key.write_public_key(folder / "authorized_keys")
    ports = {}
    for address in addresses:
        server = await asyncssh.listen(
            address,
            0,
            server_host_keys=[host_key],
            authorized_client_keys=str(folder / "authorized_keys"),
            process_factory=_run,
            sftp_factory=True,
            allow_scp=False,
            encoding=None,
        )
        ports[address] = server.get_port()
    public_key = host_key.export_public_key().decode().strip()
    names = (f"[{address}]:{port} {public_key}\n" for address, port in ports.items())
    (folder / "known_hosts").write_text("".join(names))
    print(json.dumps(ports), flush=True)
    await asyncio.to_thread(sys.stdin.read)


@contextmanager
def machines(folder: Path, addresses: list[str]) -> Iterator[dict[str, dict[str, object]]]:
    """Serve on these addresses; yields the options with which an experiment reaches them, by address."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "bench.machines", str(folder), *addresses]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        ports = json.loads(server.stdout.readline())
        try:
            yield {
                address: {
                    "port": ports[address],
                    "user": "lab",
                    "key": str(folder / "key"),
                    "known_hosts": str(folder / "known_hosts"),
                    "python": sys.executable,
                    "folder": str(folder / address),
                }
                for address in addresses
            }
        finally:
            with contextlib.suppress(BrokenPipeError):
                server.stdin.close()


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1]), sys.argv[2:]))
