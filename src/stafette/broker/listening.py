"""The sockets on which a broker or the web console listens, and who may reach them.

Workers share one port (SO_REUSEPORT), and the kernel distributes new connections among them. The same option would let
two unrelated brokers share a port silently, each with half of the clients. So a port is first bound without it, which
fails if any process listens there.
"""

from __future__ import annotations

import errno
import functools
import ipaddress
import socket
import ssl
from contextlib import ExitStack
from pathlib import Path

from stafette.errors import InvalidRequest, StafetteError, Unavailable
from stafette.files import check_key_file

ADDRESS_UNAVAILABLE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
"""Errors of bind for an address that the machine does not have, such as ::1 if IPv6 is off."""


def is_local(host: str) -> bool:
    """Whether only this machine can connect to an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_protection(host: str, certificate: Path | None, key: Path | None, *, insecure: bool) -> None:
    """Raises InvalidRequest if other machines can connect without TLS, unless `insecure`."""
    if (certificate is None) != (key is None):
        raise InvalidRequest("TLS needs both a certificate and its key; give --tls-certificate and --tls-key")
    if not is_local(host) and certificate is None and not insecure:
        raise InvalidRequest(
            f"{host or 'the empty host'} can be reached from other machines;"
            " give --tls-certificate and --tls-key, or accept unprotected connections with --insecure"
        )


@functools.cache
def tls_context(certificate: Path, key: Path | None) -> ssl.SSLContext:
    """The TLS context of a server. It is read once: then nobody but root needs to be able to read the key."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        if key is not None:
            check_key_file(key)
        context.load_cert_chain(certificate, key, password=_no_password)
    except (OSError, ValueError) as error:
        raise InvalidRequest(
            f"cannot use the certificate {certificate} with the key {key}: {error};"
            " give the PEM files of a certificate and of its key, without a password"
        ) from error
    return context


def _no_password() -> str:
    """Prevents OpenSSL from asking for a password on the terminal."""
    return ""


def bind(host: str, port: int, *, shared: bool = False) -> list[socket.socket]:
    """Sockets for all addresses of a host, with the same port (0: any free one); `shared` with other workers."""
    try:
        candidates = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise InvalidRequest(f"there is no address {host!r} to listen on: {error.strerror}; correct --host") from error
    addresses = dict.fromkeys((family, address) for family, _, _, _, address in candidates)
    with ExitStack() as undo:
        bound: list[socket.socket] = []
        for number, (family, address) in enumerate(addresses, start=1):
            chosen = port_of(bound) if bound else port
            try:
                listener = undo.enter_context(_socket(family, shared=shared))
                listener.bind((address[0], chosen, *address[2:]))
            except OSError as error:
                if error.errno in ADDRESS_UNAVAILABLE and (bound or number < len(addresses)):
                    continue
                raise _bind_error(error, host, chosen) from error
            bound.append(listener)
        undo.pop_all()
        return bound


def reserve(host: str, port: int) -> list[socket.socket]:
    """Bound sockets that keep a port for the workers to share; they do not listen themselves."""
    unshared = bind(host, port)
    port = port_of(unshared)
    for probe in unshared:
        probe.close()
    return bind(host, port, shared=True)


def port_of(sockets: list[socket.socket]) -> int:
    """The port of bound sockets."""
    return int(sockets[0].getsockname()[1])


def _socket(family: int, *, shared: bool) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(
        socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
    )  # or a restarted broker would wait for old connections
    if shared:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    if family == socket.AF_INET6:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    return listener


def _bind_error(error: OSError, host: str, port: int) -> StafetteError:
    if error.errno == errno.EADDRINUSE:
        return Unavailable(
            f"port {port} of {host} is in use by another program; stop that program, or choose another port with --port"
        )
    remedy = "choose another port with --port" if error.errno == errno.EACCES else "correct --host and --port"
    return Unavailable(f"cannot listen on {host}:{port}: {error.strerror}; {remedy}")
