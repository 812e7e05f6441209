"""Where settings come from: a flag, then STAFETTE_*, then stafette.toml in the working folder, then the default."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pydantic
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from stafette.errors import InvalidRequest

SETTINGS_FILE = Path("stafette.toml")


def _default_data() -> Path:
    """Root's home is closed to the unprivileged user that then runs PostgreSQL, hence /var/lib for root."""
    if os.geteuid() == 0:
        return Path("/var/lib/stafette")
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "stafette"


class Settings(BaseSettings):
    """All settings, each with a default that works on a laptop."""

    model_config = SettingsConfigDict(env_prefix="STAFETTE_", toml_file=SETTINGS_FILE, extra="forbid")

    data: Path = pydantic.Field(default_factory=_default_data)
    """The data folder: the embedded PostgreSQL, its log, runs of the laboratory."""

    runs: Path | None = None
    """Where the laboratory keeps its runs; by default in the data folder."""

    database: str | None = None
    """URL of a PostgreSQL to use instead of the embedded one."""

    @property
    def runs_folder(self) -> Path:
        """Where the laboratory keeps its runs."""
        return self.runs or self.data / "runs"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags come in as arguments; there are no dotenv or secret files."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)


def load(**flags: object) -> Settings:
    """Read the settings; flags that were not given (None) do not count."""
    try:
        return Settings(**{name: value for name, value in flags.items() if value is not None})  # type: ignore[arg-type]
    except tomllib.TOMLDecodeError as error:
        raise InvalidRequest(f"{SETTINGS_FILE} is not valid TOML: {error}") from error
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            known = ", ".join(Settings.model_fields)
            raise InvalidRequest(f"there is no setting {name!r} (in {SETTINGS_FILE}); known are {known}") from error
        raise InvalidRequest(f"setting {name!r}: {first['msg']}") from error
