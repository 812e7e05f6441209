"""Load on the database without a broker, as in ASL15 and mlmq."""

from __future__ import annotations

from typing import ClassVar

import pydantic

from stafette.lab.behaviours.mix import Mix, MixParameters


class DatabaseOnlyParameters(MixParameters):
    """As for the mix."""

    @pydantic.model_validator(mode="after")
    def _reaches_the_database(self) -> DatabaseOnlyParameters:
        if self.shares.echo:
            raise ValueError("an echo never reaches the database; leave it out of the shares")
        return self


class DatabaseOnly(Mix):
    """Makes the same requests as the mix, straight to the database: what a broker costs is the difference (ASL15)."""

    Parameters = DatabaseOnlyParameters
    direct: ClassVar[bool] = True
