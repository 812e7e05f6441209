"""The sockets a broker, or the web console, listens on, and who may reach them.

Workers share one port (SO_REUSEPORT), and the kernel deals new connections out to them. The same option would let two
brokers that know nothing of each other share a port without a word, each with half of the clients; hence a port is
first tried without it, which fails if anybody at all listens there.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
from contextlib import ExitStack
from pathlib import Path

from stafette.errors import InvalidRequest, StafetteError, Unavailable

NOT_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
"""What binding says of an address that the machine does not have, such as ::1 where IPv6 is off."""


def is_local(host: str) -> bool:
    """Whether only this machine can connect to an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_protection(host: str, certificate: Path | None, key: Path | None, *, insecure: bool) -> None:
    """Refuse to serve strangers without TLS, unless told to."""
    if (certificate is None) != (key is None):
        raise InvalidRequest("TLS needs both a certificate and its key; give --tls-certificate and --tls-key")
    if not is_local(host) and certificate is None and not insecure:
        raise InvalidRequest(
            f"{host or 'the empty host'} can be reached from other machines;"
            " give --tls-certificate and --tls-key, or accept unprotected connections with --insecure"
        )


def bind(host: str, port: int, *, shared: bool = False) -> list[socket.socket]:
    """Sockets for all addresses of a host, each with the same port (0: any free one), for us alone or shared."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise InvalidRequest(f"there is no address {host!r} to listen on: {error.strerror}; correct --host") from error
    addresses = dict.fromkeys((family, address) for family, _, _, _, address in found)
    with ExitStack() as undo:
        bound: list[socket.socket] = []
        for number, (family, address) in enumerate(addresses, start=1):
            chosen = port_of(bound) if bound else port
            try:
                new = undo.enter_context(_socket(family, shared=shared))
                new.bind((address[0], chosen, *address[2:]))
            except OSError as error:
                if error.errno in NOT_HERE and (bound or number < len(addresses)):
                    continue
                raise _explained(error, host, chosen) from error
            bound.append(new)
        undo.pop_all()
        return bound


def reserve(host: str, port: int) -> list[socket.socket]:
    """Sockets that keep a port for the workers to share; nobody else listens there, and neither do these."""
    unshared = bind(host, port)
    port = port_of(unshared)
    for probe in unshared:
        probe.close()
    return bind(host, port, shared=True)


def port_of(sockets: list[socket.socket]) -> int:
    """The port of bound sockets."""
    return int(sockets[0].getsockname()[1])


def _socket(family: int, *, shared: bool) -> socket.socket:
    new = socket.socket(family, socket.SOCK_STREAM)
    new.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # or a restarted broker would wait for old connections
    if shared:
        new.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    if family == socket.AF_INET6:
        new.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    return new


def _explained(error: OSError, host: str, port: int) -> StafetteError:
    if error.errno == errno.EADDRINUSE:
        return Unavailable(
            f"port {port} of {host} is taken by another program; stop that one, or choose another port with --port"
        )
    remedy = "choose another port with --port" if error.errno == errno.EACCES else "correct --host and --port"
    return Unavailable(f"cannot listen on {host}:{port}: {error.strerror}; {remedy}")
