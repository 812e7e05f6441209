"""Where settings come from: a flag, then STAFETTE_*, then stafette.toml in the working folder, then the default.

Every command reads them before it does anything, hence the struct of msgspec's: a richer library would take longer to
load than `stafette send` takes in all.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import msgspec

from stafette.errors import InvalidRequest

SETTINGS_FILE = Path("stafette.toml")
PREFIX = "STAFETTE_"


def _default_data() -> Path:
    """Root's home is closed to the unprivileged user that then runs PostgreSQL, hence /var/lib for root."""
    if os.geteuid() == 0:
        return Path("/var/lib/stafette")
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "stafette"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All settings, each with a default that works on a laptop."""

    data: Path = msgspec.field(default_factory=_default_data)
    """The data folder: the embedded PostgreSQL, its log, runs of the laboratory."""

    runs: Path | None = None
    """Where the laboratory keeps its runs; by default in the data folder."""

    experiments: Path | None = None
    """Where experiments made on the web pages are kept; by default in the data folder."""

    database: str | None = None
    """URL of a PostgreSQL to use instead of the embedded one."""

    url: str | None = None
    """URL of the brokers to talk to; by default those with the data folder."""

    name: str | None = None
    """Who to be when talking to a broker."""

    secret: str | None = None
    """What proves that."""

    @property
    def runs_folder(self) -> Path:
        """Where the laboratory keeps its runs."""
        return self.runs or self.data / "runs"

    @property
    def experiments_folder(self) -> Path:
        """Where experiments made on the web pages are kept."""
        return self.experiments or self.data / "experiments"


def load(**flags: object) -> Settings:
    """Read the settings; flags that were not given (None) do not count."""
    values = _from_file() | _from_environment() | {name: value for name, value in flags.items() if value is not None}
    try:
        return msgspec.convert(values, Settings, strict=False, dec_hook=_path)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$.")
        raise InvalidRequest(f"setting {where.removesuffix('`')!r}: {what[:1].lower()}{what[1:]}") from error


def _from_file() -> dict[str, object]:
    try:
        values = tomllib.loads(SETTINGS_FILE.read_text())
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{SETTINGS_FILE} is not valid TOML: {error}") from error
    except OSError as error:
        raise InvalidRequest(f"cannot read {SETTINGS_FILE}: {error.strerror}") from error
    for name in values:
        if name not in Settings.__struct_fields__:
            known = ", ".join(Settings.__struct_fields__)
            raise InvalidRequest(f"there is no setting {name!r} (in {SETTINGS_FILE}); known are {known}")
    return values


def _from_environment() -> dict[str, object]:
    """What is set to nothing is not set."""
    return {name: given for name in Settings.__struct_fields__ if (given := os.environ.get(f"{PREFIX}{name.upper()}"))}


def _path(kind: type, value: object) -> object:
    if kind is Path and isinstance(value, str | Path):
        return Path(value)
    raise TypeError(f"expected a path, got {value!r}")
