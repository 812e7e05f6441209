"""What an experiment may reach that somebody made on a page: other machines, and databases that are not its own.

Whoever runs `stafette lab` has an account on this machine, and may reach what that account may. An administrator of the
console has none: for them the operator says which machines and databases there are. A machine is reached with the keys
that SSH's own configuration on this machine names, so an experiment may not bring its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import parse_qsl, urlsplit

import msgspec

from stafette.errors import InvalidRequest
from stafette.lab.experiment import design
from stafette.lab.experiment.design import Point
from stafette.lab.experiment.file_problems import Problem
from stafette.lab.experiment.file_tables import Experiment, Hosts

LOCAL = "local"
DEFAULT_PORT = "5432"


class _Database(msgspec.Struct, frozen=True):
    """Where a URL of a database leads, apart from who logs in."""

    servers: tuple[str, ...]
    name: str
    options: Mapping[str, str]
    """All others: some of them name files, which are read."""

    def __str__(self) -> str:
        return f"{','.join(self.servers)}/{self.name}"


class Reach(msgspec.Struct, frozen=True):
    """What experiments from the pages may reach besides this machine and databases of their own."""

    hosts: tuple[str, ...] = ()
    """Machines, as experiments write them."""
    databases: tuple[str, ...] = ()
    """URLs: that database, or, without the name of one, each database of that server."""

    def problems(self, points: Sequence[Point]) -> Iterator[Problem]:
        """Why an experiment, given by its points, may not be run: each machine and database out of reach."""
        yield from self._problems_of_hosts(points[0].experiment.hosts)
        urls = dict.fromkeys(point.experiment.system.database for point in points)
        for url in urls:
            if "://" in url and not self._allows_database(url):
                yield Problem(
                    ("system", "database"),
                    f"system.database is {_shown(url)}, which experiments from the console may not use;"
                    ' use "reset" or "fresh", or have the operator add its URL to `lab_databases`',
                )

    def check(self, experiment: Experiment) -> None:
        """Raise InvalidRequest for the first problem."""
        for problem in self.problems(design.points(experiment)):
            raise InvalidRequest(problem.reason)

    def _problems_of_hosts(self, hosts: Hosts | None) -> Iterator[Problem]:
        """Hosts do not vary from point to point."""
        if hosts is None:
            return
        for key, names in (("database", [hosts.database]), ("brokers", hosts.brokers), ("clients", hosts.clients)):
            for name in names:
                if name != LOCAL and name not in self.hosts:
                    yield Problem(
                        ("hosts", key),
                        f"hosts.{key} names {name}, which experiments from the console may not use; use"
                        ' "local", or have the operator add it to `lab_hosts`',
                    )
        if hosts.machines:
            yield Problem(
                ("hosts", "machines"),
                "experiments from the console have no [hosts.machines]; have the operator say in SSH's own"
                " configuration how to reach these machines",
            )

    def _allows_database(self, url: str) -> bool:
        wanted = _parse(url)
        return wanted is not None and any(_covers(allowed, wanted) for allowed in map(_parse, self.databases))


NOWHERE = Reach()


def server_of(url: str) -> str:
    """The URL of the server alone of a database's URL: with it in the list, each database there may be used."""
    parts = urlsplit(url)
    return parts._replace(path="").geturl()


def _covers(allowed: _Database | None, wanted: _Database) -> bool:
    """Whether `wanted` leads to the allowed servers only, in the allowed way."""
    return (
        allowed is not None
        and bool(wanted.servers)
        and set(wanted.servers) <= set(allowed.servers)
        and allowed.name in ("", wanted.name)
        and bool(wanted.name)
        and wanted.options.items() <= allowed.options.items()
    )


def _parse(url: str) -> _Database | None:
    """Where a URL leads; None for one that says something twice, which programs read differently."""
    try:
        parts = urlsplit(url)
        pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        return None
    options = dict(pairs)
    login, _, servers = parts.netloc.rpartition("@")
    hosts = [servers, options.pop("host", "")]
    names = [parts.path.removeprefix("/"), options.pop("dbname", ""), options.pop("database", "")]
    if len(dict(pairs)) < len(pairs) or all(hosts) or sum(map(bool, names)) > 1 or "@" in login or parts.fragment:
        return None
    port = options.pop("port", "")
    for login_option in ("user", "password"):
        options.pop(login_option, None)
    return _Database(tuple(_server(host, port) for host in max(hosts).split(",") if host), max(names), options)


def _server(host: str, port: str) -> str:
    """A server with its port, such as `db.lab:5432`, or the folder of its socket."""
    if host.startswith("["):
        address, _, own_port = host[1:].partition("]")
        own_port = own_port.removeprefix(":")
    elif "/" in host:
        address, own_port = host, ""
    else:
        address, _, own_port = host.partition(":")
    return f"{address.lower()}:{own_port or port or DEFAULT_PORT}"


def _shown(url: str) -> str:
    """A URL without the user, the password and the options."""
    database = _parse(url)
    return "a URL of another kind" if database is None else str(database)
