"""Settings: from a flag, else STAFETTE_*, else stafette.toml in the working folder, else the default.

Every command reads them first, so they are a msgspec struct: a richer library takes longer to load than `stafette send`
takes in all.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Annotated

import msgspec

from stafette.errors import InvalidRequest
from stafette.files import read_trusted

SETTINGS_FILE = Path("stafette.toml")
PREFIX = "STAFETTE_"
LISTS = ("allowed_hosts", "trusted_proxies", "lab_hosts", "lab_databases")
"""Settings of several values; a flag or a variable has them separated by spaces."""


def _default_data() -> Path:
    """/var/lib for root, whose home the unprivileged user that runs PostgreSQL cannot read."""
    if os.geteuid() == 0:
        return Path("/var/lib/stafette")
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "stafette"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All settings, each with a default that works on a laptop."""

    data: Path = msgspec.field(default_factory=_default_data)
    """The data folder: the embedded PostgreSQL, its log, runs of the laboratory."""

    runs: Path | None = None
    """The folder for runs of the laboratory; by default in the data folder."""

    experiments: Path | None = None
    """The folder for experiments from the web pages; by default in the data folder."""

    database: str | None = None
    """URL of a PostgreSQL to use instead of the embedded one."""

    url: str | None = None
    """URL of the brokers to connect to; by default those that use the data folder."""

    name: str | None = None
    """The client's name."""

    secret: str | None = None
    """The client's secret."""

    key_hours: Annotated[float, msgspec.Meta(gt=0, le=99_999)] | None = None
    """How many hours a broker keeps the keys of sends; by default as long as the database says, or 24."""

    allowed_hosts: tuple[str, ...] = ()
    """Further names under which the web console may be addressed."""

    trusted_proxies: tuple[str, ...] = ()
    """IP addresses or networks of proxies before the web console."""

    lab_hosts: tuple[str, ...] = ()
    """Machines that experiments from the console may use; by default this one alone."""

    lab_databases: tuple[str, ...] = ()
    """URLs of databases that experiments from the console may use; by default those of the console's own server."""

    @property
    def runs_folder(self) -> Path:
        """The folder for runs of the laboratory."""
        return self.runs or self.data / "runs"

    @property
    def experiments_folder(self) -> Path:
        """The folder for experiments from the web pages."""
        return self.experiments or self.data / "experiments"


def load(**flags: object) -> Settings:
    """Read the settings; flags that are None are ignored."""
    values = _from_file() | _from_environment() | {name: value for name, value in flags.items() if value is not None}
    for name in LISTS:
        if isinstance(text := values.get(name), str):
            values[name] = text.split()
    try:
        return msgspec.convert(values, Settings, strict=False, dec_hook=_path)
    except msgspec.ValidationError as error:
        problem, _, setting = str(error).partition(" - at `$.")
        raise InvalidRequest(f"setting {setting.removesuffix('`')!r}: {problem[:1].lower()}{problem[1:]}") from error


def _from_file() -> dict[str, object]:
    try:
        values = tomllib.loads(read_trusted(SETTINGS_FILE))
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{SETTINGS_FILE} is not valid TOML: {error}") from error
    except OSError as error:
        raise InvalidRequest(f"cannot read {SETTINGS_FILE}: {error.strerror}") from error
    for name in values:
        if name not in Settings.__struct_fields__:
            names = ", ".join(Settings.__struct_fields__)
            raise InvalidRequest(f"there is no setting {name!r} (in {SETTINGS_FILE}); the settings are {names}")
    return values


def _from_environment() -> dict[str, object]:
    """An empty variable counts as not set."""
    return {name: value for name in Settings.__struct_fields__ if (value := os.environ.get(f"{PREFIX}{name.upper()}"))}


def _path(kind: type, value: object) -> object:
    if kind is Path and isinstance(value, str | Path):
        return Path(value)
    raise TypeError(f"expected a path, got {value!r}")
